package conformance

import (
	"fmt"
	"path"
	"strings"
)

// header begins the page.
const header = `# Conformance with OSB 2.17

Written by a test (` + "`make docs`" + `); do not edit. Every duty that the text of the
[Open Service Broker API 2.17](https://github.com/cloudfoundry/servicebroker/blob/v2.17/spec.md) or its profile lays on a broker, and what platforms
may send, under an id that tests name. A test of this repository fails when a duty of a
broker has neither a test nor a reason here. *SILENT* marks a point that the text leaves
open; the duty is then our own choice, with its reason in [osb-choices.md](osb-choices.md).
The clauses of osbtest are played on a process (acceptance.TestConformance) and on the
deployed stack (deployed.TestDeployed), and those that need no simulator on a stack on AWS.
Where we differ from the text, or from others' reading of it, stands in
[osb-divergences.md](osb-divergences.md).

`

// render writes the page. open are the ids of brokers' duties that nothing shows.
func render(all []requirement, proofs map[string][]proof, reasons map[string]string) (page string, open []string) {
	var out strings.Builder
	out.WriteString(header + summary(all, proofs))
	area := ""
	for _, r := range all {
		if r.area != area {
			area = r.area
			_, _ = fmt.Fprintf(&out, "\n## %s\n\n| id | strength | duty | shown by, or why it does not apply |\n|---|---|---|---|\n", title(area))
		}
		shown := evidence(r, proofs[r.id], reasons[r.id])
		if shown == "" {
			open = append(open, r.id)
		}
		_, _ = fmt.Fprintf(&out, "| %s | %s | %s | %s |\n", r.id, r.strength, r.duty, shown)
	}
	return out.String(), open
}

func summary(all []requirement, proofs map[string][]proof) string {
	shown, brokers := 0, 0
	for _, r := range all {
		if r.ofBroker() {
			brokers++
			if len(proofs[r.id]) > 0 {
				shown++
			}
		}
	}
	return fmt.Sprintf("%d ids, %d of them duties of a broker; tests show %d of those, and %d have a reason.\n", len(all), brokers, shown, brokers-shown)
}

func title(area string) string {
	if area == "http" {
		return "HTTP"
	}
	words := strings.ReplaceAll(area, "_", " ")
	return strings.ToUpper(words[:1]) + words[1:]
}

// evidence is the last cell of a row, "" when there is none.
func evidence(r requirement, proofs []proof, reason string) string {
	var parts []string
	for i, p := range proofs {
		if i > 0 && p.path == proofs[i-1].path && p.name == proofs[i-1].name {
			separator := "; "
			if proofs[i-1].clause == "" {
				separator = ": "
			}
			parts[len(parts)-1] += clauses(p, separator)
			continue
		}
		text := fmt.Sprintf("[%s.%s](../%s)", path.Base(path.Dir(p.path)), p.name, p.path)
		if p.shared {
			text += " in each test that uses it"
		}
		parts = append(parts, text+clauses(p, ": "))
	}
	switch {
	case len(parts) > 0:
		return strings.Join(parts, "<br>")
	case reason != "":
		return reason
	case !r.ofBroker():
		return "what platforms do; the broker has no part in it"
	}
	return ""
}

// clauses is the name of a subtest after a separator, "" when it has none.
func clauses(p proof, separator string) string {
	if p.clause == "" {
		return ""
	}
	return separator + "*" + strings.ReplaceAll(p.clause, "|", "/") + "*"
}
