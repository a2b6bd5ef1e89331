package broker_test

import (
	"context"
	"testing"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/brokertest"
)

// offeringWatch notes looks that do not say which offering's space they are about.
type offeringWatch struct {
	broker.Backend
	looks  *int
	silent *[]string
}

func (w offeringWatch) saw(ctx context.Context, call string) {
	*w.looks++
	if broker.OfferingOf(ctx) != brokertest.OfferingDB {
		*w.silent = append(*w.silent, call)
	}
}

func (w offeringWatch) FindInstances(ctx context.Context, name string, guids ...string) (broker.Look, error) {
	w.saw(ctx, "FindInstances")
	return w.Backend.FindInstances(ctx, name, guids...)
}

func (w offeringWatch) FindKeys(ctx context.Context, instance, name string, guids ...string) (broker.Look, error) {
	w.saw(ctx, "FindKeys")
	return w.Backend.FindKeys(ctx, instance, name, guids...)
}

// TestLooksNameTheirOffering (docs/protocol.md 3.2): a process that has just started knows from that which space has to
// be seen before nothing counts as gone.
func TestLooksNameTheirOffering(t *testing.T) {
	t.Parallel()
	looks, silent := 0, []string{}
	r := newRun(t, brokertest.ScheduleOptions{Backend: func(_ *brokertest.Scheduler, b broker.Backend) broker.Backend {
		return offeringWatch{b, &looks, &silent}
	}})
	r.ready()
	r.drive(r.accepted(r.bind()))
	r.drive(r.accepted(r.unbind()))
	r.drive(r.accepted(r.remove()))
	if looks < 4 || len(silent) > 0 {
		t.Errorf("of %d looks these named no offering: %q", looks, silent)
	}
}

// movedBackend is a Cloud Foundry whose API has another address than before; known says that its configuration names
// the former one.
type movedBackend struct {
	broker.Backend
	to    *broker.Place
	known bool
}

func (m movedBackend) FindInstances(ctx context.Context, name string, guids ...string) (broker.Look, error) {
	look, err := m.Backend.FindInstances(ctx, name, guids...)
	if *m.to != (broker.Place{}) {
		look.Place = *m.to
	}
	return look, err
}

func (m movedBackend) Place(ctx context.Context) (broker.Place, error) {
	if *m.to != (broker.Place{}) {
		return *m.to, nil
	}
	return m.Backend.Place(ctx)
}

func (m movedBackend) Same(recorded broker.Place) bool {
	return m.known && recorded.OrgGUID == m.to.OrgGUID
}

// TestAnAPIMayMove (docs/protocol.md 3.2): what was made under an address that the configuration calls a former one is
// at home; elsewhere a delete waits and believes no absence.
func TestAnAPIMayMove(t *testing.T) {
	t.Parallel()
	for _, known := range []bool{true, false} {
		var to broker.Place
		r := newRun(t, brokertest.ScheduleOptions{Backend: func(_ *brokertest.Scheduler, b broker.Backend) broker.Backend {
			return movedBackend{b, &to, known}
		}})
		r.ready()
		to = broker.Place{API: "https://new.example", OrgGUID: r.record(instanceKey()).Lifecycle.Place.OrgGUID}
		op := r.accepted(r.remove())
		for range 6 {
			r.step(op)
			r.Cloud.FinishAll()
		}
		ended := len(r.unfinished()) == 0
		if ended != known {
			t.Errorf("the former address is known %v: the delete ended %v", known, ended)
		}
	}
}
