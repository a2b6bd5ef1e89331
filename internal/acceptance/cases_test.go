package acceptance

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/osbtest"
)

// reported says where each of the public bug reports of other brokers, platforms and libraries is shown, by the text of
// a test or a clause in a folder of internal. Their ids are those of the list of cases, and have nothing to do with the
// ids of OSB's duties. Where a later decision differs from the answer that a case asks for, the decision counts;
// docs/osb-choices.md has them.
//
// Not driven here:
//   - PRO-16, LOP-09, CON-02, CON-03: a process that dies, or starts again, in the middle:
//     internal/process kills the built program, internal/broker explores every step.
//   - LOP-05, LOP-13: a store that is slow or away: internal/api and internal/broker.
//   - LOP-18: results are kept for days: internal/lifecycle and internal/bolt with their
//     own clocks.
//   - ORP-08: no status 408 exists in the broker; internal/api walks its table.
//   - CON-08, LAM-03, LAM-04: a late worker is fenced off: internal/broker and
//     internal/lifecycle.
//   - AUT-05: there is no chained broker whose headers would have to be sent on.
//   - CTX-03: the context is kept in the record; its annotations are not written to Cloud
//     Foundry, whose annotations are the backing platform's own.
//   - CAT-02, CAT-03, CAT-05, CAT-06, CAT-07: marketplaces that the simulator does not
//     have: internal/catalog.
//   - AUT-11, PAR-10, LAM-01, LAM-05, SFN-01 to SFN-11, and those of AGW-01 to AGW-14 and
//     DDB-01 to DDB-13 that stand nowhere below: API Gateway, Lambda, DynamoDB and Step
//     Functions; there are none here.
var reported = []struct{ cases, folder, text string }{
	{"PRO-01 PRO-03 PRO-08 PRO-09", "osbtest", "the same create"},
	{"PRO-05", "osbtest", "CON-13 a create"},
	{"PRO-06 PRO-07 PRO-15", "osbtest", "CON-10 PROV-21 ASY-06 the same create"},
	{"PRO-10", "osbtest", "CON-11 another create"},
	{"PRO-11 BND-08", "acceptance", "PRO-11 the connection is cut"},
	{"PRO-12 CON-05 CON-12", "osbtest", "many creates at once"},
	{"PRO-13", "osbtest", "a delete takes what is left"},
	{"PRO-14 VAL-04 VAL-06", "osbtest", "an update replaces what it names"},
	{"BND-01 BND-02 BND-03", "osbtest", "the same bind in other words"},
	{"BND-05 BND-07 CON-05", "osbtest", "the bindings of an instance"},
	{"BND-09", "acceptance", "37 the name of the key is taken"},
	{"BND-10", "acceptance", "BND-10 many unbinds"},
	{"BND-11", "osbtest", "an unbind takes what is left"},
	{"ABN-02 ABN-03 ABN-04 ABN-06 ABN-08", "osbtest", "BIND-46 ASY-01 ASY-04 ASY-05 ASY-07 a bind"},
	{"ABN-05 AGW-09", "osbtest", "tooLate"},
	{"ABN-07 ORP-13 DEL-01 DEL-04 LOP-02 LOP-28", "osbtest", "what nobody has is absent"},
	{"ABN-09", "osbtest", "an unbind ends the bind"},
	{"ABN-10 LOP-01 LOP-03 LOP-04 DEL-14", "osbtest", "nothing is forgotten by being asked"},
	{"ORP-02", "osbtest", "a create of what is still in force"},
	{"ORP-03 LOP-26", "acceptance", "R13 the time for polling is over"},
	{"ORP-04 ORP-05 ORP-10 ORP-14", "acceptance", "ORP-04 ORP-05 each failing create"},
	{"ORP-07", "acceptance", "09 quotas"},
	{"ORP-09", "acceptance", "ORP-09 a delete is accepted at once"},
	{"ORP-11 LOP-23 LOP-19 LOP-20 LOP-21 LOP-22", "osbtest", `poll: "in progress"`},
	{"ORP-12 LOP-10 CFC-04", "osbtest", "The create fails with this plan"},
	{"ORP-15", "osbtest", "the same delete"},
	{"ORP-16 DEL-09 DEL-10 DEL-12", "acceptance", "DEL-10 CFC-08 after a failed update"},
	{"LOP-07 LOP-27 AGW-04", "osbtest", "what a subject in a state shows to GET and to polls"},
	{"LOP-11 LOP-25", "acceptance", "no Retry-After outlives the deadline"},
	{"LOP-14", "acceptance", `{"polls"`},
	{"LOP-15 LOP-16 LOP-17", "osbtest", "no Retry-After"},
	{"LOP-24", "osbtest", "What it cancelled counts"},
	{"DEL-03 DEL-08", "acceptance", "39 unbinds"},
	{"DEL-05", "osbtest", "a delete takes the bindings along"},
	{"DEL-06 CON-07", "osbtest", "while a binding is made or removed"},
	{"DEL-11 CAT-01 CAT-08", "acceptance", "a plan leaves and comes back, ids stay"},
	{"DEL-13", "osbtest", "a delete waits for the update"},
	{"CON-01", "acceptance", "beside an update"},
	{"CON-04", "acceptance", "of bindings at once with their instance"},
	{"CON-09", "acceptance", "it takes effect after the DELETE"},
	{"CON-10", "osbtest", `row.Labels["ferry-client"] != c.Name`},
	{"CON-11", "acceptance", "23 another operation is in progress"},
	{"AUT-01 AUT-12 ERR-02", "osbtest", "no route answers without the right credentials"},
	{"AUT-02 AUT-03", "api", "a password with colons"},
	{"AUT-04", "osbtest", "any version 2.x is welcome"},
	{"AUT-07 AUT-08", "osbtest", "whose originator cannot be read"},
	{"AUT-09", "osbtest", "the request identity stands in the log"},
	{"AUT-10", "acceptance", "AUT-10 header names"},
	{"AUT-13 ERR-05", "osbtest", "unknown paths and methods"},
	{"CTX-02 CTX-04 PROV-11", "osbtest", "the same create in other words"},
	{"PAR-01 PAR-02 PAR-04 PAR-03 PAR-06 PAR-07 PAR-09", "osbtest", "letter for letter"},
	{"PAR-11 ERR-03 VAL-02", "osbtest", "parameters are held against the plan's schema"},
	{"VAL-02 VAL-03", "osbtest", "requests that are refused, and why"},
	{"VAL-05 VAL-07 ERR-06", "osbtest", "offerings that cannot be bound, changed or fetched"},
	{"VAL-08 ERR-04", "osbtest", "an update without effect"},
	{"MNT-02 MNT-05 MNT-06", "osbtest", "versions of plans"},
	{"MNT-03 MNT-04", "acceptance", "an older instance is brought to the plan's version"},
	{"AGW-02 AGW-05 AGW-06 CFC-10", "osbtest", "any character may stand in an id"},
	{"AGW-11 AGW-14", "osbtest", "a life in which each request is sent many times at once"},
	{"DDB-09", "osbtest", "beyond their limits"},
	{"CRD-01 CRD-02", "acceptance", "CRD-01 credentials arrive as they are"},
	{"CFC-01", "acceptance", "40 a token ends while it is used"},
	{"CFC-02", "acceptance", "CFC-02 lists"},
	{"CFC-03 CFC-09 CFC-14", "acceptance", "CFC-03 the old API is not asked"},
	{"CFC-05 LOP-12", "acceptance", "502 HTML"},
	{"CFC-06", "acceptance", "a proxy answered 202 without a Location"},
	{"CFC-07", "acceptance", "40 limits and maintenance"},
	{"CFC-08", "acceptance", "CFC-08 a key over a failed one"},
	{"CFC-12", "osbtest", "two platforms never see each other's instances"},
	{"CFC-13", "acceptance", "03 a router answers 502 503 504"},
	{"SEC-01", "osbtest", "a secret"},
}

// TestReported holds the list against the tests that it names.
func TestReported(t *testing.T) {
	t.Parallel()
	texts := map[string]string{}
	for _, r := range reported {
		if texts[r.folder] == "" {
			texts[r.folder] = goFiles(t, r.folder)
		}
		if !strings.Contains(texts[r.folder], r.text) {
			t.Errorf("%s: nothing in internal/%s says %q", r.cases, r.folder, r.text)
		}
	}
}

// goFiles are the files of a folder of internal, without this one.
func goFiles(t *testing.T, folder string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join("..", folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if name == filepath.Join("..", "acceptance", "cases_test.go") {
			_, own, _ := strings.Cut(string(text), "func TestCase(")
			text = []byte(own)
		}
		all.Write(text)
	}
	return all.String()
}

// TestCase has the reports that nothing else shows.
func TestCase(t *testing.T) {
	t.Parallel()
	c := start(t, warnings, budget(10*time.Second))
	for name, check := range map[string]func(tenant){
		"PRO-11 the connection is cut before the answer, then the create is sent again":                 cutConnection,
		"ORP-04 ORP-05 each failing create costs one call, and says why":                                failingCreates,
		"ORP-09 a delete is accepted at once while Cloud Foundry hangs":                                 hangingDelete,
		"BND-10 many unbinds while Cloud Foundry stumbles":                                              stumblingUnbinds,
		"AUT-10 header names in lower case":                                                             lowerCase,
		"CRD-01 credentials arrive as they are":                                                         exoticCredentials,
		"CFC-02 lists whose next page is null, missing, or the same":                                    strangePages,
		"CFC-08 a key over a failed one":                                                                keyOverFailed,
		"DEL-10 CFC-08 after a failed update or delete an instance is bound, changed and deleted again": keyAfterFailure,
		"CFC-03 the old API is not asked for credentials":                                               oldAPI,
	} {
		t.Run(name, func(t *testing.T) { check(c.parallel(t)) })
	}
}

// cutConnection sends a create and hangs up at once.
func cutConnection(c tenant) {
	id, body := c.NewID(), c.InstanceBody("postgres/async", "")
	r, err := http.NewRequest("PUT", c.Client.URL+at(id)+"?accepts_incomplete=true", strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	r.SetBasicAuth(c.Username, c.Password)
	r.Header.Set("X-Broker-API-Version", "2.17")
	conn, err := net.Dial("tcp", r.URL.Host)
	if err != nil {
		c.t.Fatal(err)
	}
	if err := r.Write(conn); err != nil {
		c.t.Fatal(err)
	}
	_ = conn.Close() // that it is cut is the point
	if a := c.Provision(id, "postgres/async", ""); a.Status == 202 {
		c.Succeeds(at(id), a.Operation())
	} else {
		a.Bare(200)
	}
	c.Bind(id, "b", "postgres/async", "").Want(201)
	c.AskedFor(1, "provision", id, "")
	c.Row(id)
}

func failingCreates(c tenant) {
	id, first := c.starts("faults/create-rejected")
	c.Fails(at(id), first, "refused by this plan")
	second := c.Provision(id, "faults/create-rejected", `{"a":1}`).Want(202).Operation()
	if c.Fails(at(id), second, "refused by this plan"); second == first {
		c.t.Errorf("the second create has the operation %s of the first", first)
	}
	c.AskedFor(2, "provision", id, "")
	c.Gone(id, "faults/create-rejected")
}

func hangingDelete(c tenant) {
	const id = "hanging"
	c.Succeeds(at(id), c.Provision(id, "postgres/small", "").Want(202).Operation())
	c.Disturb(fault{Match: id, Action: "delay", DelayMS: 1500}.On("*", "*", 2))
	began := time.Now()
	op := c.removes(id, "postgres/small")
	if a, took := c.Poll(at(id), op), time.Since(began); a.State() != "in progress" && took < time.Second {
		c.t.Errorf("%s: %s after %s, though nothing answers", a.Request, a.Body, took)
	}
	c.goneFor(id, op)
}

func stumblingUnbinds(c tenant) {
	const many = 12
	id := c.Ready("postgres/small", "")
	for i := range many {
		c.Bind(id, fmt.Sprint("b", i), "postgres/small", "").Want(201)
	}
	for _, key := range c.Row(id).Keys[:4] {
		for _, status := range []int{429, 503} {
			c.Disturb(fault{Match: key.GUID, Action: "respond", Status: status, Headers: map[string]string{"Retry-After": "1"}}.On("DELETE", "*", 1))
		}
	}
	for _, a := range osbtest.Together(many, func(i int) answer { return c.Unbind(id, fmt.Sprint("b", i), "postgres/small") }) {
		a.Bare(200)
	}
	c.HasKeys(id)
}

// lowerCase writes the request itself, because Go's client would change the names.
func lowerCase(c tenant) {
	host := strings.TrimPrefix(c.Client.URL, "http://")
	conn, err := net.Dial("tcp", host)
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	login := base64.StdEncoding.EncodeToString([]byte(c.Username + ":" + c.Password))
	_, err = fmt.Fprintf(conn, "GET /v2/catalog HTTP/1.1\r\nhost: %s\r\nx-broker-api-version: 2.17\r\nauthorization: basic %s\r\nconnection: close\r\n\r\n", host, login)
	if err != nil {
		c.t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || resp.StatusCode != 200 {
		c.t.Errorf("%v %v, want 200", resp, err)
		return
	}
	_ = resp.Body.Close()
}

// exoticCredentials have everything that a wrong decoder spoils.
func exoticCredentials(c tenant) {
	const exotic = `{"a.b":1,"ünï":"ö","n":null,"big":12345678901234567890,"nest":{"x":[1,{}]},"html":"<&>","quoted":"\"\\\n%","f":1.50}`
	id := c.Ready("postgres/small", "")
	c.Bind(id, "exotic", "postgres/small", "").Want(201)
	c.Disturb(fault{Match: c.Row(id).Keys[0].GUID, Action: "respond", Status: 200, Body: `{"credentials":` + exotic + `}`}.On("GET", key+"/details", 2))
	for _, a := range []answer{c.Bind(id, "exotic", "postgres/small", ""), c.Fetch(bindingAt(id, "exotic"))} {
		if a.Want(200); a.Credentials() != exotic {
			c.t.Errorf("%s: %s, want %s", a.Request, a.Credentials(), exotic)
		}
	}
}

// strangePages: all pages are read, each once, and what has no end is no list.
func strangePages(c tenant) {
	const plan = "faults/create-stalls"
	for name, next := range map[string]string{"null": `"next":null,`, "missing": "", "same": `"next":{"href":` + osbtest.Quoted(c.Cloud.URL+instances+"?page=1") + `},`} {
		id := "pages-" + name
		op := c.Provision(id, plan, `{"a":1}`).Want(http.StatusAccepted).Operation()
		c.Works("provision", id, "")
		row := c.Operator("GET", instances+"/"+c.Row(id).GUID, "").Want(http.StatusOK)
		c.Disturb(fault{Match: id, Action: "respond", Status: 200, Headers: map[string]string{"Content-Type": "application/json"},
			Body: `{"pagination":{` + next + `"total_results":1,"total_pages":1},"resources":[` + row.Body + `]}`}.On("GET", instances, 2))
		c.runs(at(id), op)
		c.Force(c.Row(id).GUID, "create", "succeeded", "COMPLETE")
		c.made(id, op)
	}
}

func keyOverFailed(c tenant) {
	const plan = "postgres/async-bindings"
	id := c.Ready(plan, "")
	path := bindingAt(id, "b")
	c.Instruct(`{"operation":"bind","instance":%q,"times":1,"answer":"accepted","polls":"failed","description":"not today"}`, id)
	first := c.Bind(id, "b", plan, "", osbtest.Async).Want(202).Operation()
	c.Fails(path, first, "not today")
	old := c.Row(id).Keys[0].GUID
	second := c.Bind(id, "b", plan, "", osbtest.Async).Want(202).Operation()
	c.Succeeds(path, second)
	if row := c.Row(id); len(row.Keys) != 1 || row.Keys[0].GUID == old || second == first {
		c.t.Errorf("Cloud Foundry has the keys %+v, before %s", row.Keys, old)
	}
	c.Fetch(path).Want(200)
}

func keyAfterFailure(c tenant) {
	for plan, fails := range map[string]func(id, plan string) string{"faults/update-fails": c.changes, "faults/delete-fails-once": c.removes} {
		id := c.Ready(plan, "")
		c.Fails(at(id), fails(id, plan))
		c.Bind(id, "b", plan, "").Want(201)
		c.AskedFor(1, "bind", id, "b")
		c.Fetch(at(id)).Want(200)
		if plan == "faults/update-fails" {
			c.Fails(at(id), c.changes(id, plan))
		}
		c.Gone(id, plan)
	}
}

func oldAPI(c tenant) {
	c.Bound("postgres/async-bindings")
	for request := range c.State().Requests {
		if strings.Contains(request, " /v2") {
			c.t.Errorf("the old API was asked: %s", request)
		}
	}
}
