package catalog

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-broker/ferry/internal/broker"
)

func TestDocumentIsBuiltOnceAndTagged(t *testing.T) {
	t.Parallel()
	r := newService(newStore())
	r.cf.set(marketOf("db"), nil)
	first := r.document(t)
	sum := sha256.Sum256(first.Body)
	if want := `"` + hex.EncodeToString(sum[:]) + `"`; first.ETag != want {
		t.Errorf("ETag %s, want %s", first.ETag, want)
	}
	if want := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC); !first.Modified.Equal(want) {
		t.Errorf("Modified %v, want %v", first.Modified, want)
	}
	second := r.document(t)
	if &first.Body[0] != &second.Body[0] {
		t.Error("the body was built again")
	}
	if n := r.cf.count(); n != 1 {
		t.Errorf("%d fetches, want 1", n)
	}
}

func TestUnchangedMarketplaceIsNotBuiltAgain(t *testing.T) {
	t.Parallel()
	r := serving(t, marketOf("db"))
	before := r.clients["a"].current.Load()
	r.mustRefresh(t)
	if after := r.clients["a"].current.Load(); after != before {
		t.Error("a refresh that brought the same replaced the catalog")
	}
}

func TestDocumentAndPlanDoNotAllocate(t *testing.T) {
	r := serving(t, marketOf("db"))
	ctx := t.Context()
	if n := testing.AllocsPerRun(1000, func() { _, _ = r.Document(ctx, "a") }); n != 0 {
		t.Errorf("Document allocates %v times", n)
	}
	if n := testing.AllocsPerRun(1000, func() { _, _ = r.Plan(ctx, "a", "id-db", "id-db-small") }); n != 0 {
		t.Errorf("Plan allocates %v times", n)
	}
}

func TestModifiedFollowsTheBody(t *testing.T) {
	t.Parallel()
	r := newService(newStore())
	at := func(name string) Document {
		t.Helper()
		r.offer(t, marketOf(name))
		return r.document(t)
	}
	first := at("db")
	r.clock.advance(time.Minute)
	if same := at("db"); !same.Modified.Equal(first.Modified) {
		t.Errorf("an unchanged body moved from %v to %v", first.Modified, same.Modified)
	}
	changed := at("queue")
	if want := first.Modified.Add(time.Minute); !changed.Modified.Equal(want) || changed.ETag == first.ETag {
		t.Errorf("a changed body is dated %v, want %v", changed.Modified, want)
	}
	if soon := at("db"); !soon.Modified.Equal(changed.Modified.Add(time.Second)) {
		t.Errorf("two changes within a second are dated %v and %v", changed.Modified, soon.Modified)
	}
}

// A re-registered backing broker has new GUIDs and the old ids: same body, other calls.
func TestNewGUIDsReachPlanWithoutANewBody(t *testing.T) {
	t.Parallel()
	r := serving(t, marketOf("db"))
	before, _ := r.Document(t.Context(), "a")
	again := marketOf("db")
	again.Offerings[0].Plans[0].GUID = "new"
	r.offer(t, again)
	after, _ := r.Document(t.Context(), "a")
	if diff := cmp.Diff(before, after); diff != "" {
		t.Error(diff)
	}
	if p, err := r.Plan(t.Context(), "a", "id-db", "id-db-small"); err != nil || p.PlanGUID != "new" {
		t.Errorf("plan GUID %q, %v; want the new one", p.PlanGUID, err)
	}
	if stored := r.store.stored(t); stored.Revision != 2 {
		t.Errorf("stored revision %d, want 2", stored.Revision)
	}
}

func TestPlan(t *testing.T) {
	t.Parallel()
	m := marketOf("db")
	o := &m.Offerings[0]
	o.InstancesRetrievable, o.BindingsRetrievable, o.AllowContextUpdates = true, true, true
	o.Plans[0].PlanUpdateable, o.Plans[0].MaintenanceVersion, o.Plans[0].MaximumPollingDuration = true, "1.0.0", time.Hour
	m.Offerings = append(m.Offerings, offering("queue", plan("standard")))
	r := newService(newStore())
	r.cf.set(m, nil)

	got, err := r.Plan(t.Context(), "a", "id-db", "id-db-small")
	if err != nil {
		t.Fatal(err)
	}
	want := broker.Plan{
		ServiceID: "id-db", PlanID: "id-db-small", OfferingName: "db", PlanName: "db-small", PlanGUID: "guid-db-small",
		Bindable: true, PlanUpdateable: true, InstancesRetrievable: true, BindingsRetrievable: true,
		AllowContextUpdates: true, MaintenanceVersion: "1.0.0", MaximumPollingDuration: time.Hour,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if byGUID, err := r.PlanOf(t.Context(), "a", "guid-db-small"); err != nil || byGUID != want {
		t.Errorf("by GUID: %+v, %v", byGUID, err)
	}
	if _, err := r.PlanOf(t.Context(), "a", "nope"); !errors.Is(err, broker.ErrUnknownPlan) {
		t.Errorf("by an unknown GUID: %v", err)
	}
	for name, tt := range map[string]struct{ service, plan, says string }{
		"unknown offering":         {"nope", "id-db-small", `the catalog has no service offering with service_id "nope"`},
		"unknown plan":             {"id-db", "nope", `the service offering "id-db" has no plan with plan_id "nope"`},
		"plan of another offering": {"id-db", "id-standard", `has no plan with plan_id "id-standard"`},
		"id of many bytes":         {strings.Repeat("\x00", 9000), "x", `"; fetch the catalog again`},
	} {
		_, err := r.Plan(t.Context(), "a", tt.service, tt.plan)
		if !errors.Is(err, broker.ErrUnknownPlan) || errors.Is(err, broker.ErrNoCatalog) {
			t.Errorf("%s: error %v is not ErrUnknownPlan", name, err)
		}
		if text := err.Error(); !strings.Contains(text, tt.says) || len(text) > 700 {
			t.Errorf("%s: %q does not say %q in short", name, text, tt.says)
		}
	}
	if n := r.cf.count(); n != 1 {
		t.Errorf("%d fetches, want 1: what is unknown must not ask Cloud Foundry", n)
	}
}

func TestNoCatalogIsKnown(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(*testing.T, *service){
		"while Cloud Foundry is down":     func(_ *testing.T, r *service) { isDown(r) },
		"while the marketplace is empty":  func(_ *testing.T, r *service) { r.cf.set(broker.Marketplace{}, nil) },
		"while the store is down as well": func(_ *testing.T, r *service) { isDown(r); r.store.fault = errDown },
		"while the stored copy is unreadable": func(t *testing.T, r *service) {
			isDown(r)
			r.store.plant(t, []byte("{"), startOfTime)
		},
		"while the stored copy offers nothing": func(t *testing.T, r *service) {
			isDown(r)
			r.store.plant(t, []byte("{}"), startOfTime)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newService(newStore())
			set(t, r)
			if doc, err := r.Document(t.Context(), "a"); !errors.Is(err, broker.ErrNoCatalog) || doc.Body != nil {
				t.Errorf("Document: %s, %v; want ErrNoCatalog", doc.Body, err)
			}
			if _, err := r.Plan(t.Context(), "a", "s", "p"); !errors.Is(err, broker.ErrNoCatalog) || errors.Is(err, broker.ErrUnknownPlan) {
				t.Errorf("Plan: %v, want ErrNoCatalog", err)
			}
			if r.Ready("a") {
				t.Error("ready without a catalog")
			}
		})
	}
}

var errFull = errors.New("nobody else may wait")

// full is a broker.Waiter that lets nobody wait.
type full struct{}

func (full) BeginWaiting() error { return errFull }

// Law 10: what is known is told to everybody, and only what waits for Cloud Foundry asks for a place.
func TestAFirstFetchIsForThoseWhoMayWait(t *testing.T) {
	t.Parallel()
	r := newService(newStore())
	r.cf.set(marketOf("db"), nil)
	ctx := broker.WithWaiter(t.Context(), full{})
	if _, err := r.Document(ctx, "a"); !errors.Is(err, errFull) || r.cf.count() != 0 {
		t.Errorf("%v after %d fetches, want the refusal before any", err, r.cf.count())
	}
	if _, err := r.Document(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Document(ctx, "a"); err != nil {
		t.Errorf("a catalog that is known: %v", err)
	}
}

func TestClientThatIsNotConfigured(t *testing.T) {
	t.Parallel()
	r := newService(newStore())
	if _, err := r.Document(t.Context(), "b"); !errors.Is(err, broker.ErrNoCatalog) {
		t.Errorf("Document: %v, want ErrNoCatalog", err)
	}
	if err := r.Refresh(t.Context(), "b"); !errors.Is(err, broker.ErrNoCatalog) {
		t.Errorf("Refresh: %v, want ErrNoCatalog", err)
	}
	if r.Ready("b") {
		t.Error("ready")
	}
}

// A catalog that is known is never replaced by nothing.
func TestLastGoodCatalogStays(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answer broker.Marketplace
		err    error
	}{
		"when the fetch fails":          {err: errDown},
		"when the marketplace is empty": {},
		"when no offering has a plan":   {answer: marketWith(offering("db"))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := serving(t, marketOf("db"))
			before, _ := r.Document(t.Context(), "a")
			r.cf.set(tt.answer, tt.err)
			if err := r.Refresh(t.Context(), "a"); err == nil || tt.err != nil && !errors.Is(err, tt.err) {
				t.Errorf("Refresh says %v", err)
			}
			after := r.document(t)
			if diff := cmp.Diff(before, after); diff != "" {
				t.Error(diff)
			}
			if n := r.store.writes; n != 1 {
				t.Errorf("%d writes, want 1", n)
			}
			if n := r.log.count("level=WARN"); n != 1 {
				t.Errorf("%d warnings, want 1", n)
			}
		})
	}
}

func TestFailuresAreLoggedOnceAMinute(t *testing.T) {
	t.Parallel()
	r := newService(newStore())
	isDown(r)
	for range 120 {
		_ = r.Refresh(t.Context(), "a")
		r.clock.advance(time.Second)
	}
	if n := r.log.count("the catalog was not refreshed"); n != 2 {
		t.Errorf("%d warnings in two minutes, want 2", n)
	}
}

func TestCallerWhoGaveUpIsNoFailureOfCloudFoundry(t *testing.T) {
	t.Parallel()
	r := newService(newStore())
	r.cf.hold, r.cf.entered = make(chan struct{}), make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-r.cf.entered; cancel() }()
	if err := r.Refresh(ctx, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
	if n := r.log.count("level=WARN"); n != 0 {
		t.Errorf("%d warnings, want none", n)
	}
}

func TestWhatIsLeftOutIsReportedOncePerChange(t *testing.T) {
	t.Parallel()
	twice := marketOf("db")
	twice.Offerings = append(twice.Offerings, twice.Offerings[0])
	thrice := marketOf("db")
	thrice.Offerings = append(thrice.Offerings, twice.Offerings...)
	r := newService(newStore())
	for _, step := range []struct {
		answer broker.Marketplace
		want   int
	}{{twice, 1}, {twice, 1}, {thrice, 2}, {marketOf("db"), 2}, {marketOf("db"), 2}, {twice, 3}} {
		r.offer(t, step.answer)
		if n := r.log.count("left out of the catalog"); n != step.want {
			t.Fatalf("%d reports, want %d", n, step.want)
		}
	}
	// A change elsewhere is no reason to say it again.
	twice.Offerings[0].Description = "changed"
	r.offer(t, twice)
	if n := r.log.count("left out of the catalog"); n != 3 {
		t.Errorf("%d reports after a change elsewhere, want 3", n)
	}
}
