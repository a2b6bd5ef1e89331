package catalog

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestReload(t *testing.T) {
	t.Parallel()
	janitor := newRig(newMemory())
	janitor.market.set(shop("db"), nil)
	janitor.mustRefresh(t)
	reader := newRig(janitor.store)
	reader.market.set(shop("elsewhere"), nil)
	if err := reader.Reload(t.Context(), "a"); err != nil || reader.Ready("a") {
		t.Errorf("%v: a catalog was loaded that nobody asked for", err)
	}
	before := reader.names(t)

	janitor.market.set(shop("queue"), nil)
	janitor.clock.advance(5 * time.Minute)
	janitor.mustRefresh(t)
	if diff := cmp.Diff(before, reader.names(t)); diff != "" {
		t.Errorf("it changed without being asked to (-want +got):\n%s", diff)
	}
	if err := reader.Reload(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	after := reader.names(t)
	if diff := cmp.Diff(janitor.names(t), after); diff != "" {
		t.Errorf("not what the other process stored (-want +got):\n%s", diff)
	}
	if n := reader.market.count(); n != 0 {
		t.Errorf("%d fetches, want none", n)
	}

	janitor.store.plant("a", []byte("{}"), janitor.clock.Now())
	if err := reader.Reload(t.Context(), "a"); err == nil {
		t.Error("an empty catalog was taken over")
	}
	if diff := cmp.Diff(after, reader.names(t)); diff != "" {
		t.Errorf("the old catalog did not stay (-want +got):\n%s", diff)
	}
}

func TestReloadOfAStranger(t *testing.T) {
	t.Parallel()
	if err := newRig(newMemory()).Reload(t.Context(), "nobody"); err == nil {
		t.Error("a client that is not configured has a catalog")
	}
}
