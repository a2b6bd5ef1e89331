package cf

import (
	"cmp"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/cloudfoundry/go-cfclient/v3/resource"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/ccapi"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// The marks on what Ferry made. They carry no prefix, so that Cloud Foundry does not hand them to backing brokers
// (docs/cf-contract.md 3.4).
const (
	markOperation = "ferry-operation"
	markSeq       = "ferry-seq"
	markUpdate    = "ferry-update"
	labelClient   = "ferry-client"
)

// lastOperation stands in for go-cfclient's, which cannot tell the empty object of old rows from the empty state of
// Korifi's new ones.
type lastOperation struct {
	Type        string                    `json:"type"`
	State       *string                   `json:"state"`
	Description ccapi.Optional[string]    `json:"description"`
	UpdatedAt   ccapi.Optional[time.Time] `json:"updated_at"`
}

// facts is what a row of an instance and of a key have in common.
type facts struct {
	guid     string
	metadata *resource.Metadata
	last     *lastOperation
}

// rowReader turns what the API shows of an instance or a key into a row.
type rowReader struct {
	api    *ccapi.Client
	client string
}

func (r rowReader) row(f facts, header http.Header) broker.Row {
	row := broker.Row{GUID: f.guid, Last: r.lastOf(f.last), Age: ageOf(f.last, header)}
	operation := annotation(f.metadata, markOperation)
	seq, ok := readSeq(annotation(f.metadata, markSeq))
	if operation != "" && ok && r.isOurs(f.metadata) {
		row.Marked, row.Operation, row.Seq = true, operation, seq
	}
	row.Update = annotation(f.metadata, markUpdate)
	return row
}

func (r rowReader) lastOf(last *lastOperation) lifecycle.LastOperation {
	if last == nil || last.State == nil {
		return lifecycle.LastOperation{Verb: lifecycle.Create, State: lifecycle.LastSucceeded}
	}
	l := lifecycle.LastOperation{Verb: lifecycle.Verb(last.Type), State: lifecycle.LastState(*last.State)}
	if l.Verb == "" {
		l.Verb = lifecycle.Create
	}
	if l.State == "" {
		l.State = lifecycle.LastInitial
	}
	l.Description = r.api.ForUsers(withoutClass(last.Description.Value))
	return l
}

// maxSeq is above every sequence number that can be meant: they begin at the Unix time in seconds and rise by one.
const maxSeq = 1_000_000_000_000

// readSeq reads a mark. One that no Ferry can have written makes no mark.
func readSeq(text string) (int64, bool) {
	seq, err := strconv.ParseInt(text, 10, 64)
	return seq, err == nil && seq >= 0 && seq < maxSeq
}

// earliest is when Cloud Foundry cannot have written a row yet.
func earliest() time.Time { return time.Unix(1_200_000_000, 0) }

// ageOf compares two readings of Cloud Foundry's own clock; ours may be wrong. Without both, or with one that cannot be
// meant, the row counts as just written, which ends nothing.
func ageOf(last *lastOperation, header http.Header) time.Duration {
	sent, err := http.ParseTime(header.Get("Date"))
	if err != nil || last == nil || last.UpdatedAt.Value.Before(earliest()) {
		return 0
	}
	return max(0, sent.Sub(last.UpdatedAt.Value))
}

func annotation(m *resource.Metadata, key string) string {
	if m == nil || m.Annotations[key] == nil {
		return ""
	}
	return *m.Annotations[key]
}

// isOurs reports whether the label does not speak against it: where two clients share an org, the marks of one mean
// nothing to the other.
func (r rowReader) isOurs(m *resource.Metadata) bool {
	label := m.Labels[labelClient]
	return label == nil || *label == clientLabel(r.client)
}

// clientLabel is the name as a label can hold it: its value begins and ends with a letter or digit, a client's name
// need not.
func clientLabel(client string) string { return strings.Trim(client, "-") }

// createMetadata are the marks of something new with this OSB id.
func (r rowReader) createMetadata(id string, m broker.Marks) *resource.Metadata {
	metadata := resource.NewMetadata().
		WithAnnotation("", markOperation, m.Operation).
		WithAnnotation("", markSeq, strconv.FormatInt(m.Seq, 10))
	if label := clientLabel(cmp.Or(m.Client, r.client)); label != "" {
		metadata.SetLabel("", labelClient, label)
	}
	markWithID(metadata, id)
	return metadata
}

// updateMetadata marks an update, and notes the id on rows of before that lack it. A Cloud Controller writes both when
// the update has succeeded, with the rest.
func updateMetadata(id string, m broker.Marks) *resource.Metadata {
	metadata := resource.NewMetadata().WithAnnotation("", markUpdate, m.Operation)
	if id != "" {
		markWithID(metadata, id)
	}
	return metadata
}

func toOne(guid string) *resource.ToOneRelationship {
	return &resource.ToOneRelationship{Data: &resource.Relationship{GUID: guid}}
}

// markID is the annotation with the OSB id, percent-encoded: a name may be changed in Cloud Foundry, and some ids
// cannot be names. Rows of before have it in the latter case only.
const markID = "ferry-id"

// maxAnnotation is the length in characters that Cloud Foundry takes.
const maxAnnotation = 5000

// markWithID notes the id. One that is too long even for that is left out: look-ups do without it.
func markWithID(m *resource.Metadata, id string) {
	if encoded := url.QueryEscape(id); len(encoded) <= maxAnnotation {
		m.SetAnnotation("", markID, encoded)
	}
}

// idOf returns the OSB id of a marked row, and whether nothing but its name tells it. ok is false for a hash without
// the annotation that belongs to it.
func idOf(name string, m *resource.Metadata) (id string, byName, ok bool) {
	if m != nil && m.Annotations[markID] != nil {
		noted, err := url.QueryUnescape(*m.Annotations[markID])
		if err == nil && (noted != "" || name == nameOf("")) {
			return noted, false, true
		}
	}
	return name, true, !hashedName.MatchString(name)
}
