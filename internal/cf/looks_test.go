package cf

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-broker/ferry/internal/broker"
)

// crowd is a rowStore whose lists can be held, with a backend that knows which Cloud Foundry it is.
type crowd struct {
	*rowStore
	s *stub
	b *Backend
}

func newCrowd(t *testing.T, rows ...storedRow) crowd {
	t.Helper()
	h := &rowStore{rows: rows}
	s := newStub(t, h.answer)
	b := s.backend(t, nil)
	if _, err := b.places.space(t.Context(), "postgres"); err != nil {
		t.Fatal(err)
	}
	b.flavor(cloudController)
	b.patient()
	return crowd{h, s, b}
}

func (b *Backend) flavor(f flavor) { b.instances.flavors.learn(f) }

// look is one look-up of a crowd and what it has to find.
type look struct {
	find func(context.Context, *Backend) (broker.Look, error)
	want []string
}

func named(name string, guids ...string) func(context.Context, *Backend) (broker.Look, error) {
	return func(ctx context.Context, b *Backend) (broker.Look, error) {
		return b.FindInstances(ctx, broker.Lookup{Name: name, GUIDs: guids, Offering: "postgres"})
	}
}

func known(guid string) func(context.Context, *Backend) (broker.Look, error) {
	return func(ctx context.Context, b *Backend) (broker.Look, error) {
		return b.FindInstance(ctx, guid, "postgres")
	}
}

func keyNamed(instance, name string, guids ...string) func(context.Context, *Backend) (broker.Look, error) {
	return func(ctx context.Context, b *Backend) (broker.Look, error) {
		return b.FindKeys(ctx, broker.Lookup{Instance: instance, Name: name, GUIDs: guids, Offering: "postgres"})
	}
}

// patient lets no call that is shared begin beside another, however long a test takes.
func (b *Backend) patient() {
	b.instances.looks.patience, b.instances.reads.patience, b.keys.looks.patience = time.Hour, time.Hour, time.Hour
	b.places.orgs.patience, b.instances.flavors.asked.patience = time.Hour, time.Hour
}

// waiting is how many look-ups wait for a list that has not begun.
func (b *Backend) waiting() int {
	return waits(&b.instances.looks) + waits(&b.instances.reads) + waits(&b.keys.looks)
}

// outcome is what a look-up of a crowd came to.
type outcome struct {
	look broker.Look
	err  error
}

// meanwhile begins the first look, and all others while its list is under way: when it has been answered, but before
// anybody heard of it. It returns what the others came to, when all have ended.
func (c crowd) meanwhile(t *testing.T, first look, others []look, before func()) []outcome {
	t.Helper()
	read, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	c.mu.Lock()
	c.asked = nil
	c.answering = func() { once.Do(func() { close(read); <-release }) }
	c.mu.Unlock()
	var all sync.WaitGroup
	all.Go(func() {
		got, err := first.find(t.Context(), c.b)
		checkLook(t, "the first", first, outcome{got, err})
	})
	<-read
	if before != nil {
		before()
	}
	outcomes := make([]outcome, len(others))
	for i, o := range others {
		all.Go(func() { outcomes[i].look, outcomes[i].err = o.find(t.Context(), c.b) })
	}
	until(t, "all others wait", func() bool { return c.b.waiting() == len(others) })
	close(release)
	all.Wait()
	return outcomes
}

func checkLook(t *testing.T, who string, want look, got outcome) {
	t.Helper()
	if diff := cmp.Diff(want.want, guidsOf(got.look)); got.err != nil || diff != "" {
		t.Errorf("%s: %v (-want +got):\n%s", who, got.err, diff)
	}
}

// summary is what was asked for, with the number of values where a filter has several.
func (c crowd) summary() []string {
	short := func(values string) string {
		if n := len(strings.Split(values, ",")); n > 1 {
			return strconv.Itoa(n)
		}
		return values
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var asked []string
	for _, one := range c.asked {
		if names, guids, list := strings.Cut(strings.TrimPrefix(one, "names="), " guids="); list {
			one = "names=" + short(names) + " guids=" + short(guids)
		}
		asked = append(asked, one)
	}
	return asked
}

// TestLookUpsShareLists (docs/protocol.md 3.9): one that comes first has a list of its own, all who come meanwhile
// share the next one, which begins after all of them came; each gets what is its own.
func TestLookUpsShareLists(t *testing.T) {
	t.Parallel()
	const space = "space-of-org-guid"
	for name, test := range map[string]struct {
		rows   []storedRow
		late   storedRow // made when the first list has been read
		first  look
		others []look
		asked  []string
	}{
		"instances by name": {
			[]storedRow{{"g0", "zero", space, ""}, {"g1", "one", space, ""}, {"g2", "TWO", space, ""}, {"g3", "a,b", space, ""}},
			storedRow{"g4", "late", space, ""},
			look{named("zero"), []string{"g0"}},
			[]look{
				{named("one"), []string{"g1"}}, {named("one"), []string{"g1"}}, {named("two"), nil},
				{named("a,b"), []string{"g3"}}, {named("late"), []string{"g4"}}, {named("none"), nil},
			},
			[]string{"names=zero guids=", "names=5 guids="},
		},
		"instances that are called otherwise": {
			[]storedRow{{"g0", "zero", space, ""}, {"g1", "renamed", space, ""}, {"g2", "three", space, ""}, {"g3", "x", "space-of-other-org", ""}},
			storedRow{"g4", "renamed", space, ""},
			look{named("zero", "g0"), []string{"g0"}},
			[]look{
				{named("one", "g1"), []string{"g1"}}, {named("two", "g2"), []string{"g2"}}, {named("three"), []string{"g2"}},
				{named("four", "g3"), nil}, {named("five", "g4", "gone", ""), []string{"g4"}},
			},
			// The row of "two" was listed, as "three" was asked for.
			[]string{"names=zero guids=", "names=5 guids=", "names= guids=4"},
		},
		"instances by GUID": {
			[]storedRow{{"g1", "one", space, ""}, {"g2", "two", space, ""}},
			storedRow{"g4", "late", space, ""},
			look{known("g0"), nil},
			[]look{{known("g1"), []string{"g1"}}, {known("g2"), []string{"g2"}}, {known("g4"), []string{"g4"}}, {known("gone"), nil}},
			[]string{"g0", "names= guids=4"},
		},
		"keys by name": {
			[]storedRow{{"k0", "k", "", "i0"}, {"k1", "k", "", "i1"}, {"k2", "k", "", "i2"}, {"k3", "l", "", "i1"}, {"k5", "l", "", "i2"}},
			storedRow{"k4", "late", "", "i4"},
			look{keyNamed("i0", "k"), []string{"k0"}},
			[]look{
				{keyNamed("i1", "k"), []string{"k1"}}, {keyNamed("i2", "k"), []string{"k2"}}, {keyNamed("i1", "l"), []string{"k3"}},
				{keyNamed("i4", "late"), []string{"k4"}}, {keyNamed("i9", "k"), nil},
			},
			[]string{"names=k guids=", "names=3 guids="},
		},
		"keys that are called otherwise": {
			[]storedRow{{"k0", "k", "", "i0"}, {"k1", "renamed", "", "i1"}, {"k2", "renamed", "", "i2"}},
			storedRow{"k4", "renamed", "", "i4"},
			look{keyNamed("i0", "k"), []string{"k0"}},
			[]look{
				{keyNamed("i1", "k", "k1"), []string{"k1"}}, {keyNamed("i2", "k", "k2", "k1"), []string{"k2"}},
				{keyNamed("i4", "k", "k4"), []string{"k4"}}, {keyNamed("i1", "l", "gone"), nil},
			},
			[]string{"names=k guids=", "names=2 guids=", "names= guids=4"},
		},
		"keys that do not say of which instance they are": {
			[]storedRow{{"k0", "k", "", "i0"}, {"k1", "l", "", "i1"}, {"k2", "k", "", ""}},
			storedRow{"k4", "late", "", "i4"},
			look{keyNamed("i0", "k"), []string{"k0", "k2"}}, // it was the only instance that was asked for
			[]look{{keyNamed("i1", "l"), []string{"k1"}}, {keyNamed("i2", "k"), []string{"k2"}}, {keyNamed("i4", "late"), []string{"k4"}}},
			[]string{"names=k guids=", "names=3 guids=", "names=k guids="},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCrowd(t, test.rows...)
			outcomes := c.meanwhile(t, test.first, test.others, func() {
				c.mu.Lock()
				c.rows = append(c.rows, test.late)
				c.mu.Unlock()
			})
			for i, o := range outcomes {
				checkLook(t, fmt.Sprint("look-up ", i), test.others[i], o)
			}
			if diff := cmp.Diff(test.asked, c.summary()); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
		})
	}
}

// three are look-ups of each kind that ask together after a first one of their kind, with rows that are all there.
func three(kind string) (rows []storedRow, first look, others []look) {
	const space = "space-of-org-guid"
	for i := range 4 {
		guid, name := fmt.Sprint("g", i), fmt.Sprint("n", i)
		rows = append(rows, storedRow{guid, name, space, "i" + name})
		l := look{want: []string{guid}}
		switch kind {
		case "FindInstances":
			l.find = named(name)
		case "FindInstance":
			l.find = known(guid)
		case "FindKeys":
			l.find = keyNamed("i"+name, name)
		}
		others = append(others, l)
	}
	return rows, others[0], others[1:]
}

// TestPagesAreNoSnapshot (docs/protocol.md 3.9): a row that is missing on several pages is looked for alone, by name or
// by GUID, before its absence is believed. Nobody else is asked for again.
func TestPagesAreNoSnapshot(t *testing.T) {
	t.Parallel()
	for kind, asked := range map[string][]string{
		"FindInstances": {"names=n0 guids=", "names=3 guids=", "names=3 guids=", "names=3 guids=", "names=n2 guids="},
		"FindInstance":  {"g0", "names= guids=3", "names= guids=3", "names= guids=3", "g2"},
		"FindKeys":      {"names=n0 guids=", "names=3 guids=", "names=3 guids=", "names=3 guids=", "names=n2 guids="},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			rows, first, others := three(kind)
			c := newCrowd(t, rows...)
			c.pages, c.lost = 1, "g2"
			for i, o := range c.meanwhile(t, first, others, nil) {
				checkLook(t, fmt.Sprint("look-up ", i+1), others[i], o)
			}
			if diff := cmp.Diff(asked, c.summary()); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
		})
	}
}

// TestARowThatIsCalledOtherwiseMayBeMissingOnPages, too.
func TestARowThatIsCalledOtherwiseMayBeMissingOnPages(t *testing.T) {
	t.Parallel()
	const space = "space-of-org-guid"
	for kind, find := range map[string]func(name string, guids ...string) func(context.Context, *Backend) (broker.Look, error){
		"FindInstances": named,
		"FindKeys": func(name string, guids ...string) func(context.Context, *Backend) (broker.Look, error) {
			return keyNamed("i", name, guids...)
		},
	} {
		c := newCrowd(t, storedRow{"g0", "n0", space, "i"}, storedRow{"g1", "x", space, "i"}, storedRow{"g2", "x", space, "i"}, storedRow{"g3", "n2", space, "i"})
		c.pages, c.lost = 1, "g2"
		others := []look{{find("n1", "g1"), []string{"g1"}}, {find("n2", "g2"), []string{"g3", "g2"}}}
		for i, o := range c.meanwhile(t, look{find("n0"), []string{"g0"}}, others, nil) {
			checkLook(t, fmt.Sprint(kind, " ", i+1), others[i], o)
		}
	}
}

// TestOneLookUpBelievesItsPages: what is asked for alone costs what it always did.
func TestOneLookUpBelievesItsPages(t *testing.T) {
	t.Parallel()
	const space = "space-of-org-guid"
	c := newCrowd(t, storedRow{"g0", "n0", space, "i"}, storedRow{"g1", "N0", space, "i"})
	c.pages, c.lost = 1, "g0"
	for kind, find := range map[string]func(context.Context, *Backend) (broker.Look, error){
		"FindInstances": named("n0"), "FindKeys": keyNamed("i", "n0"),
	} {
		c.asked = nil
		got, err := find(t.Context(), c.b)
		checkLook(t, kind, look{find, nil}, outcome{got, err})
		if len(c.asked) != 2 {
			t.Errorf("%s asked %q, want the two pages of one list", kind, c.asked)
		}
	}
}

// TestTheFaultOfAListIsEverybodysAndNobodyElses.
func TestTheFaultOfAListIsEverybodysAndNobodyElses(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"FindInstances", "FindInstance", "FindKeys"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			rows, first, others := three(kind)
			c := newCrowd(t, rows...)
			c.fails = func(asked string) bool { return strings.Contains(asked, ",") }
			for i, o := range c.meanwhile(t, first, others, nil) {
				if o.err == nil || len(o.look.Rows) != 0 {
					t.Errorf("look-up %d: %+v, %v; want the fault of the list", i+1, o.look.Rows, o.err)
				}
			}
			if n := len(c.asked); n != 2 {
				t.Errorf("asked %q, want two calls", c.asked)
			}
			got, err := others[0].find(t.Context(), c.b)
			checkLook(t, "who comes later", others[0], outcome{got, err})
		})
	}
}

// TestALookUpOfItsOwnIsItsOwnFault: what one of a crowd asks for alone fails nobody else.
func TestALookUpOfItsOwnIsItsOwnFault(t *testing.T) {
	t.Parallel()
	rows, first, others := three("FindInstances")
	c := newCrowd(t, rows...)
	c.pages, c.lost = 1, "g2"
	c.fails = func(asked string) bool { return asked == "names=n2 guids=" }
	for i, o := range c.meanwhile(t, first, others, nil) {
		if i == 1 {
			if o.err == nil {
				t.Errorf("look-up %d: %+v; want that nothing is known", i+1, o.look)
			}
			continue
		}
		checkLook(t, fmt.Sprint("look-up ", i+1), others[i], o)
	}
}

// TestOneConfirmationServesAList (docs/protocol.md 3.2): however many of a list are absent.
func TestOneConfirmationServesAList(t *testing.T) {
	t.Parallel()
	for kind, find := range map[string]func(int) func(context.Context, *Backend) (broker.Look, error){
		"FindInstances": func(i int) func(context.Context, *Backend) (broker.Look, error) { return named(fmt.Sprint("n", i)) },
		"FindInstance":  func(i int) func(context.Context, *Backend) (broker.Look, error) { return known(fmt.Sprint("g", i)) },
		"FindKeys": func(i int) func(context.Context, *Backend) (broker.Look, error) {
			return keyNamed("i", fmt.Sprint("n", i))
		},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			c := newCrowd(t)
			others := make([]look, 200)
			for i := range others {
				others[i] = look{find: find(i)}
			}
			before := c.s.count("GET /v3/spaces")
			for i, o := range c.meanwhile(t, look{find: find(999)}, others, nil) {
				checkLook(t, fmt.Sprint("look-up ", i), others[i], o)
			}
			// Those of the first, and those of the others.
			if n := c.s.count("GET /v3/spaces") - before; n > 2 || len(c.asked) != 2 {
				t.Errorf("%d lists of spaces after %q; want one for each", n, c.summary())
			}
		})
	}
}

// TestListsOfManyFitIntoAddresses: proxies refuse those of more than 8 KB, as they are sent. However many look at once,
// a list takes as many of them as its address has room for.
func TestListsOfManyFitIntoAddresses(t *testing.T) {
	t.Parallel()
	const space = "space-of-org-guid"
	guid := func(i int) string { return fmt.Sprintf("%08d-0000-4000-8000-000000000000", i) }
	escaped := func(i int) string { return fmt.Sprint(strings.Repeat("ä, %&😀", 40), i) }
	for name, test := range map[string]struct {
		many  int
		name  func(int) string
		find  func(i int, name string) func(context.Context, *Backend) (broker.Look, error)
		lists int
	}{
		"names like GUIDs": {500, guid, func(_ int, name string) func(context.Context, *Backend) (broker.Look, error) { return named(name) }, 3},
		"names to escape":  {20, escaped, func(_ int, name string) func(context.Context, *Backend) (broker.Look, error) { return named(name) }, 10},
		"GUIDs":            {500, guid, func(i int, _ string) func(context.Context, *Backend) (broker.Look, error) { return known(guid(i)) }, 3},
		"renamed": {150, guid, func(i int, _ string) func(context.Context, *Backend) (broker.Look, error) {
			return named(fmt.Sprint(i), guid(i))
		}, 2},
		"keys": {300, guid, func(_ int, name string) func(context.Context, *Backend) (broker.Look, error) {
			return keyNamed("i-"+name, name)
		}, 4},
		"renamed keys": {150, guid, func(i int, name string) func(context.Context, *Backend) (broker.Look, error) {
			return keyNamed("i-"+name, fmt.Sprint(i), guid(i))
		}, 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCrowd(t)
			others := make([]look, test.many)
			for i := range others {
				c.rows = append(c.rows, storedRow{guid(i), test.name(i), space, "i-" + test.name(i)})
				others[i] = look{test.find(i, test.name(i)), []string{guid(i)}}
			}
			for i, o := range c.meanwhile(t, others[0], others, nil) {
				checkLook(t, fmt.Sprint("look-up ", i), others[i], o)
			}
			first := 1
			if strings.HasPrefix(name, "renamed") {
				first = 2
			}
			if n := len(c.asked) - first; n > test.lists {
				t.Errorf("%d lists for %d look-ups, want %d", n, test.many, test.lists)
			}
		})
	}
}

// TestACrowdThatKnowsNothingAsksOnce for its org, and for which implementation answers.
func TestACrowdThatKnowsNothingAsksOnce(t *testing.T) {
	t.Parallel()
	s := newStub(t, busyCloud)
	b := s.backend(t, nil)
	b.patient()
	var crowd sync.WaitGroup
	for range 50 {
		crowd.Go(func() {
			if look, err := keyNamed("g", "k")(t.Context(), b); err != nil || len(look.Rows) != 1 {
				t.Errorf("%+v, %v", look, err)
			}
		})
	}
	crowd.Wait()
	for _, call := range []string{"GET /v3/organizations", "GET /v3/service_instances"} {
		if n := s.count(call); n != 1 {
			t.Errorf("%d times %s, want once", n, call)
		}
	}
}
