package bolt

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/brokertest"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// oldFile reads a file of a folder that an older Ferry wrote. Those of be89be7 and 314e373 are of a serve that was
// killed (SIGKILL) while a create, an update and a bind ran, and a create that was cancelled; be89be7 and the one that
// wrote folder1 stored no sum.
func oldFile(t *testing.T, folder, name string) []byte {
	t.Helper()
	return readFile(t, filepath.Join("testdata", folder), name)
}

// TestAnOldFolderOpens with all that it holds, and again after it was written to; what a start left over that was cut
// short on the way, too.
func TestAnOldFolderOpens(t *testing.T) {
	t.Parallel()
	for folder, check := range map[string]func(*testing.T, *Store){
		"folder1": checkFolder1, "folder-be89be7": checkOldRecords, "folder-314e373": checkOldRecords,
	} {
		t.Run(folder, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			keys := oldFile(t, folder, keyFile)
			writeFiles(t, dir, oldFile(t, folder, storeFile), keys)
			for round := range 3 {
				s, err := Open(t.Context(), Options{Dir: dir, Now: inOldTimes})
				if err != nil {
					t.Fatalf("round %d: %v", round, err)
				}
				check(t, s)
				if there(filepath.Join(dir, keyFile)) {
					t.Errorf("round %d: keys that nothing needs are left", round)
				}
				mustPut(t, s, plain(bindingOf(100+round), "new", `{"x":1}`), 0)
				checkIndexes(t, s)
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				if round == 1 { // killed before it had removed them
					writeFiles(t, dir, readFile(t, dir, storeFile), keys)
				}
			}
		})
	}
}

// inOldTimes is soon after the old folders were written.
func inOldTimes() time.Time { return time.Date(2026, 12, 1, 10, 40, 0, 0, time.UTC) }

func oldKey(instance, binding string) broker.Key {
	return broker.Key{Client: "old", InstanceID: instance, BindingID: binding}
}

func checkFolder1(t *testing.T, s *Store) {
	t.Helper()
	for n, want := range map[int]string{0: "", 1: `{"password":"x"}`, 2: ""} {
		r, err := s.Get(t.Context(), bindingOf(n))
		if err != nil || string(r.Parameters) != want {
			t.Errorf("record %d has %q, %v; want %q", n, r.Parameters, err, want)
		}
	}
	if c, err := s.Catalog(t.Context(), "client"); err != nil || string(c.Body) != `{"services":[]}` {
		t.Errorf("catalog %s, %v", c.Body, err)
	}
	if page, err := s.Unfinished(t.Context(), inOldTimes(), "", 100); err != nil || len(page.Operations) < 30 {
		t.Errorf("%d operations, %v", len(page.Operations), err)
	}
}

func checkOldRecords(t *testing.T, s *Store) {
	t.Helper()
	for key, want := range map[broker.Key]string{
		oldKey("made", ""):      "ready ",
		oldKey("made", "made"):  "ready ",
		oldKey("gone", ""):      "gone ",
		oldKey("creates", ""):   `creating {"password": "running-create"}`,
		oldKey("updates", ""):   `updating {"password": "running-update"}`,
		oldKey("made", "binds"): `creating {"password": "running-bind"}`,
		oldKey("cancelled", ""): "deleting ",
	} {
		r, err := s.Get(t.Context(), key)
		if got := fmt.Sprintf("%v %s", r.Lifecycle.State, r.Parameters); err != nil || got != want {
			t.Errorf("%v: %s, %v; want %s", key, got, err, want)
		}
	}
	var running []string
	page, err := s.Unfinished(t.Context(), inOldTimes(), "", 100)
	for _, u := range page.Operations {
		if u.Key.Client == "old" {
			running = append(running, u.Key.InstanceID+u.Key.BindingID)
		}
	}
	slices.Sort(running)
	if got := strings.Join(running, " "); err != nil || got != "cancelled creates madebinds updates" {
		t.Errorf("unfinished: %s, %v", got, err)
	}
	if c, err := s.Catalog(t.Context(), "old"); err != nil || !bytes.Contains(c.Body, []byte("postgres")) {
		t.Errorf("catalog: %.100s, %v", c.Body, err)
	}
}

// TestOperationsOfAnOldFolderGoOn: a create that an older Ferry accepted is carried out with the parameters that it
// kept.
func TestOperationsOfAnOldFolderGoOn(t *testing.T) {
	t.Parallel()
	for _, folder := range []string{"folder-be89be7", "folder-314e373"} {
		t.Run(folder, func(t *testing.T) {
			t.Parallel()
			dir, key, now := t.TempDir(), oldKey("creates", ""), inOldTimes()
			clock := func() time.Time { return now }
			writeFiles(t, dir, oldFile(t, folder, storeFile), oldFile(t, folder, keyFile))
			s := openAt(t, dir, clock)
			r, err := s.Get(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			cloud := &receiver{FakeCloud: brokertest.NewFakeCloud(brokertest.CloudOptions{Now: clock, Place: r.Lifecycle.Place})}
			b := broker.New(broker.Options{
				Store: s, Backends: map[string]broker.Backend{"old": cloud}, Catalog: brokertest.NewFakeCatalog(), Now: clock,
			})
			for step := (broker.Step{}); !step.Done && now.Before(inOldTimes().Add(time.Hour)); now = now.Add(time.Minute) {
				if step, err = b.Advance(t.Context(), key, r.Lifecycle.Operation.ID); err != nil {
					t.Fatal(err)
				}
			}
			r, err = s.Get(t.Context(), key)
			if err != nil || r.Lifecycle.State != lifecycle.Ready || len(r.Parameters) > 0 {
				t.Errorf("it is %v with parameters %q, %v; want it ready and without", r.Lifecycle.State, r.Parameters, err)
			}
			if got := string(cloud.parameters); got != `{"password": "running-create"}` {
				t.Errorf("Cloud Foundry got %q", got)
			}
		})
	}
}

// receiver takes a note of the parameters of a create, and has every plan.
type receiver struct {
	*brokertest.FakeCloud
	parameters []byte
}

func (c *receiver) CreateInstance(ctx context.Context, q broker.InstanceCall) (broker.Answer, error) {
	c.parameters = bytes.Clone(q.Parameters)
	plan := brokertest.FakePlans()[0]
	q.PlanGUID, q.Offering = plan.PlanGUID, plan.OfferingName
	return c.FakeCloud.CreateInstance(ctx, q)
}
