package bolt

import (
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// decodeBody reads the JSON of a record into r, which is empty. Nearly all of it is as newItem writes it today, and is
// read in a quarter of the time that encoding/json takes; what is not, such as the records of an older Ferry, is left
// to encoding/json, and so is the judgement of what is malformed.
func decodeBody(body []byte, r *broker.Record) error {
	p := bodyReader{rest: string(body)}
	if p.record(r); p.rest == "" && !p.other {
		return nil
	}
	stored := new(storedRecord)
	err := json.Unmarshal(body, stored)
	*r = stored.Record
	return err
}

// The fields of a record's types, in the order in which encoding/json writes them. TestBodyReaderKnowsEveryField fails
// for one that is missing here.

func (p *bodyReader) record(r *broker.Record) {
	p.begin()
	integer(p, "revision", &r.Revision)
	text(p, "token", &r.Token)
	if p.next("lifecycle") {
		p.lifecycle(&r.Lifecycle)
	}
	if p.next("attributes") {
		p.attributes(&r.Attributes)
	}
	if p.next("target") {
		r.Target = new(broker.Attributes)
		p.attributes(r.Target)
	}
	p.bytes("salt", &r.Salt)
	text(p, "inherited", &r.Inherited)
	text(p, "api_info_location", &r.APIInfoLocation)
	text(p, "dashboard_url", &r.DashboardURL)
	if p.next("metadata") { // the last one, which has maps
		metadata := r.Metadata // a place of its own: r is to stay where it is, on the stack of its reader
		last := strings.TrimSuffix(p.rest, "}")
		p.other = p.other || json.Unmarshal([]byte(last), &metadata) != nil
		r.Metadata, p.rest = metadata, p.rest[len(last):]
	}
	p.end()
}

func (p *bodyReader) attributes(a *broker.Attributes) {
	p.begin()
	text(p, "service_id", &a.ServiceID)
	text(p, "plan_id", &a.PlanID)
	text(p, "offering_name", &a.OfferingName)
	text(p, "plan_guid", &a.PlanGUID)
	text(p, "parameters", &a.Parameters)
	text(p, "owner", &a.Owner)
	text(p, "maintenance_version", &a.MaintenanceVersion)
	text(p, "predecessor_id", &a.PredecessorID)
	p.end()
}

func (p *bodyReader) lifecycle(r *lifecycle.Record) {
	p.begin()
	text(p, "kind", &r.Kind)
	text(p, "state", &r.State)
	integer(p, "life", &r.Life)
	integer(p, "seq", &r.Seq)
	if p.next("operation") {
		p.operation(&r.Operation)
	}
	if p.next("create_op") {
		p.reference(&r.CreateOp)
	}
	text(p, "cf_guid", &r.CFGUID)
	list(p, "guids", &r.GUIDs, (*bodyReader).guid)
	if p.next("place") {
		p.place(&r.Place)
	}
	list(p, "open_calls", &r.OpenCalls, (*bodyReader).openCall)
	integer(p, "last_call", &r.LastCall)
	list(p, "finished", &r.Finished, (*bodyReader).finished)
	text(p, "instance_create_op", &r.InstanceCreateOp)
	text(p, "instance_guid", &r.InstanceGUID)
	p.time("expires_at", &r.ExpiresAt)
	p.end()
}

func (p *bodyReader) operation(o *lifecycle.Operation) {
	p.begin()
	text(p, "id", &o.ID)
	integer(p, "seq", &o.Seq)
	text(p, "verb", &o.Verb)
	p.time("started", &o.Started)
	p.time("deadline", &o.Deadline)
	p.bool("held", &o.Held)
	p.bool("fresh", &o.IDWasFree)
	text(p, "job", &o.Job)
	text(p, "job_guid", &o.JobGUID)
	p.bool("made", &o.CreatedWithoutJob)
	integer(p, "calls", &o.Calls)
	integer(p, "answered", &o.Answered)
	integer(p, "taken", &o.NameTaken)
	text(p, "refused", &o.FinalRefusal)
	p.bool("unusable", &o.InstanceMissing)
	text(p, "code", &o.Code)
	text(p, "trouble", &o.TemporaryRefusal)
	text(p, "unheard", &o.NoAnswer)
	integer(p, "turned_down", &o.FailedDeletes)
	integer(p, "by_broker", &o.FailedDeletesByBroker)
	p.time("not_before", &o.NotBefore)
	p.time("resumed", &o.PaceResetAt)
	integer(p, "resumes", &o.PaceResets)
	p.bool("reread", &o.MarketplaceReread)
	p.bool("unbound", &o.NoBindingsLeft)
	if p.next("cleanup") {
		p.cleanup(&o.Cleanup)
	}
	if p.next("lease") {
		p.lease(&o.Lease)
	}
	p.time("due", &o.Due)
	integer(p, "restarts", &o.Restarts)
	p.end()
}

func (p *bodyReader) reference(r *lifecycle.Reference) {
	p.begin()
	text(p, "id", &r.ID)
	integer(p, "seq", &r.Seq)
	p.end()
}

func (p *bodyReader) guid(s *string) { *s = p.text() }

func (p *bodyReader) place(l *lifecycle.Place) {
	p.begin()
	text(p, "api", &l.API)
	text(p, "org_guid", &l.OrgGUID)
	p.end()
}

func (p *bodyReader) openCall(c *lifecycle.OpenCall) {
	p.begin()
	integer(p, "n", &c.Number)
	integer(p, "seq", &c.Seq)
	text(p, "verb", &c.Verb)
	p.time("until", &c.Until)
	p.end()
}

func (p *bodyReader) finished(f *lifecycle.Finished) {
	p.begin()
	text(p, "id", &f.ID)
	text(p, "verb", &f.Verb)
	p.bool("succeeded", &f.Succeeded)
	text(p, "description", &f.Description)
	p.bool("own", &f.OwnWords)
	text(p, "code", &f.Code)
	p.time("ended", &f.EndedAt)
	p.bool("unusable", &f.InstanceUnusable)
	p.bool("final", &f.UpdateNotRepeatable)
	p.end()
}

func (p *bodyReader) cleanup(c *lifecycle.Cleanup) {
	p.begin()
	text(p, "guid", &c.GUID)
	text(p, "job", &c.Job)
	p.end()
}

func (p *bodyReader) lease(l *lifecycle.Lease) {
	p.begin()
	text(p, "holder", &l.Holder)
	p.time("until", &l.Until)
	p.end()
}

// bodyReader reads JSON that has its fields in a known order and no spaces between them. It gives up at everything
// else.
type bodyReader struct {
	// rest is what is still to be read. Texts are parts of it.
	rest string
	// comma says that a comma comes before the next field or element: something in the same object or list stands
	// before it.
	comma bool
	// other says that it gave up.
	other bool
}

// skip steps over s, with which the rest has to begin.
func (p *bodyReader) skip(s string) {
	rest, found := strings.CutPrefix(p.rest, s)
	p.rest, p.other = rest, p.other || !found
}

func (p *bodyReader) begin() {
	p.skip("{")
	p.comma = false
}

func (p *bodyReader) end() {
	p.skip("}")
	p.comma = true
}

// next steps to the value of the field with this name, if that is what comes next.
func (p *bodyReader) next(name string) bool {
	rest := p.rest
	if p.comma {
		if rest == "" || rest[0] != ',' {
			return false
		}
		rest = rest[1:]
	}
	n := len(name)
	if len(rest) < n+3 || rest[0] != '"' || rest[1:n+1] != name || rest[n+1:n+3] != `":` {
		return false
	}
	p.rest, p.comma = rest[n+3:], true
	return true
}

// list reads a list that is not empty: an empty one is never written.
func list[T any](p *bodyReader, name string, to *[]T, read func(*bodyReader, *T)) {
	if !p.next(name) {
		return
	}
	for p.skip("["); !p.other; p.skip(",") {
		*to = append(*to, *new(T))
		read(p, &(*to)[len(*to)-1])
		if strings.HasPrefix(p.rest, "]") {
			break
		}
	}
	p.skip("]")
	p.comma = true
}

func text[T ~string](p *bodyReader, name string, to *T) {
	if p.next(name) {
		*to = T(p.text())
	}
}

// text reads a string. One that is not of plain ASCII is decoded by encoding/json.
func (p *bodyReader) text() (s string) {
	p.skip(`"`)
	for i := range len(p.rest) {
		switch c := p.rest[i]; {
		case c == '"':
			s, p.rest = p.rest[:i], p.rest[i+1:]
			return s
		case c < ' ' || c == '\\' || c > '~':
			return p.encoded()
		}
	}
	p.other = true
	return ""
}

// encoded reads the rest of a string behind its first quote.
func (p *bodyReader) encoded() (s string) {
	for i := 0; i < len(p.rest); i++ {
		switch p.rest[i] {
		case '\\':
			i++
		case '"':
			p.other = p.other || json.Unmarshal([]byte(`"`+p.rest[:i+1]), &s) != nil
			p.rest = p.rest[i+1:]
			return s
		}
	}
	p.other = true
	return ""
}

func integer[T int | int64](p *bodyReader, name string, to *T) {
	if !p.next(name) {
		return
	}
	n := 0
	for n < len(p.rest) && (p.rest[n] == '-' || p.rest[n] >= '0' && p.rest[n] <= '9') {
		n++
	}
	number, err := strconv.ParseInt(p.rest[:n], 10, strconv.IntSize)
	// 01 and -0 are not written so.
	p.other = p.other || err != nil || n > 1 && strings.HasPrefix(strings.TrimPrefix(p.rest[:n], "-"), "0")
	*to, p.rest = T(number), p.rest[n:]
}

// bool reads a field that is written only if it is true, or always.
func (p *bodyReader) bool(name string, to *bool) {
	if !p.next(name) {
		return
	}
	if *to = strings.HasPrefix(p.rest, "true"); *to {
		p.skip("true")
	} else {
		p.skip("false")
	}
}

func (p *bodyReader) time(name string, to *time.Time) {
	if !p.next(name) {
		return
	}
	s := p.text()
	p.other = p.other || to.UnmarshalText([]byte(s)) != nil
}

// bytes reads what is written in Base64.
func (p *bodyReader) bytes(name string, to *[]byte) {
	if !p.next(name) {
		return
	}
	b, err := base64.StdEncoding.DecodeString(p.text())
	*to, p.other = b, p.other || err != nil
}
