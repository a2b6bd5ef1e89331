package bolt

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/ferry-broker/ferry/internal/broker"
)

func refused(err error) bool {
	_, ok := errors.AsType[*FolderError](err)
	return ok
}

// moment is a folder as it was, and what its store held.
type moment struct {
	store   []byte
	records map[broker.Key]string // revision and parameters
}

// moments writes to a store and copies the file after every some writes. With older, the copies are those of a Ferry
// that stored no sum.
func moments(t *testing.T, n int, older bool) []moment {
	t.Helper()
	dir := t.TempDir()
	s := openAt(t, dir, time.Now)
	random := rand.New(rand.NewPCG(1, 2))
	now := map[broker.Key]string{}
	revisions := map[broker.Key]int64{}
	var all []moment
	for range n {
		for range 60 {
			key := bindingOf(random.IntN(80))
			key.InstanceID = fmt.Sprintf("instance-%02d", random.IntN(9))
			parameters := ""
			if random.IntN(3) == 0 {
				parameters = fmt.Sprintf(`{"n":%d}`, random.IntN(1000))
			}
			r := plain(key, strings.Repeat("t", random.IntN(300)), parameters)
			r.Lifecycle.Operation.Due = time.Unix(2e9+random.Int64N(1000), 0)
			revisions[key] = mustPut(t, s, r, revisions[key]).Revision
			now[key] = fmt.Sprint(revisions[key], parameters)
		}
		if older { // a commit that leaves the sum as it was
			updateRaw(t, s, func(*bbolt.Tx) error { return nil })
		}
		m := moment{store: readFile(t, dir, storeFile), records: map[broker.Key]string{}}
		for key, what := range now {
			m.records[key] = what
		}
		all = append(all, m)
	}
	return all
}

func readFile(t *testing.T, dir, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

const testPage = 4096

// tear makes what a copy, a disk or a hand may leave of two moments, a before b.
func tear(random *rand.Rand, a, b moment) (store []byte, how string) {
	store = bytes.Clone(b.store)
	if page := os.Getpagesize(); page != testPage {
		return store[:random.IntN(len(store))], "cut"
	}
	n := random.IntN(len(store) / testPage)
	at := store[n*testPage : (n+1)*testPage]
	switch random.IntN(7) {
	case 0: // a plain copy: what was read first is older
		copy(store[:n*testPage], a.store)
		return store, fmt.Sprintf("the first %d pages older", n)
	case 1: // one that began at the end, or that only took over some pages
		copy(store[min(n*testPage, len(a.store)):], a.store[min(n*testPage, len(a.store)):])
		return store, fmt.Sprintf("the pages from %d on older", n)
	case 2:
		for i := 0; i+testPage <= min(len(a.store), len(store)); i += testPage {
			if random.IntN(2) == 0 {
				copy(store[i:i+testPage], a.store[i:])
			}
		}
		return store, "pages mixed"
	case 3:
		return store[:random.IntN(len(store)-1)+1], "cut"
	case 4:
		clear(at)
		return store, fmt.Sprintf("page %d zeroed", n)
	case 5:
		at[random.IntN(testPage)] ^= 1 << random.IntN(8)
		return store, fmt.Sprintf("a bit of page %d flipped", n)
	default:
		for i := range at {
			at[i] = byte(random.Uint32())
		}
		return store, fmt.Sprintf("page %d scribbled over", n)
	}
}

// TestTornFiles: of hundreds of torn copies each is refused with nothing changed, or holds exactly what one of the
// moments held. None ends the process.
func TestTornFiles(t *testing.T) {
	t.Parallel()
	for name, older := range map[string]bool{"of this Ferry": false, "of a Ferry that stored no sum": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := moments(t, 8, older)
			random := rand.New(rand.NewPCG(3, 4))
			opened, wrong := 0, 0
			const copies = 350
			for n := range copies {
				a := random.IntN(len(all) - 1)
				b := a + 1 + random.IntN(len(all)-a-1)
				store, how := tear(random, all[a], all[b])
				dir := t.TempDir()
				writeFiles(t, dir, store, nil)
				s, err := Open(t.Context(), Options{Dir: dir, Now: time.Now})
				if err != nil {
					if !refused(err) {
						t.Fatalf("copy %d, %s: %v; want a *FolderError", n, how, err)
					}
					if !bytes.Equal(store, readFile(t, dir, storeFile)) {
						t.Errorf("copy %d, %s: refused, and written", n, how)
					}
					continue
				}
				opened++
				if !holdsOneOf(t, s, all) {
					wrong++
					t.Logf("copy %d, %s: holds what no moment held", n, how)
				}
				_ = s.Close() // a file that was torn may show it late, but not by a panic
			}
			t.Logf("%d of %d opened, %d with what no moment held", opened, copies, wrong)
			if limit := map[bool]int{false: 0, true: copies / 20}[older]; wrong > limit {
				t.Errorf("%d of %d copies were believed that hold what no moment held, want at most %d", wrong, copies, limit)
			}
			if opened > copies/2 || opened == 0 {
				t.Errorf("%d of %d copies were opened: the test tears too little, or too much", opened, copies)
			}
		})
	}
}

func writeFiles(t *testing.T, dir string, store, keys []byte) {
	t.Helper()
	for name, content := range map[string][]byte{storeFile: store, keyFile: keys} {
		if content == nil {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// holdsOneOf reads everything, and writes.
func holdsOneOf(t *testing.T, s *Store, all []moment) bool {
	t.Helper()
	for _, m := range all {
		same := 0
		for key, want := range m.records {
			r, err := s.Get(t.Context(), key)
			if err != nil || fmt.Sprint(r.Revision, string(r.Parameters)) != want {
				break
			}
			same++
		}
		page, err := s.Unfinished(t.Context(), time.Unix(3e9, 0), "", 10000)
		if same == len(m.records) && err == nil && page.Unreadable == 0 && len(page.Operations) == same {
			_, err := s.Put(t.Context(), plain(bindingOf(1000), "new", `{"x":1}`), 0)
			return err == nil
		}
	}
	return false
}

// TestForeignFiles: what else may lie where the files should be, those of an older Ferry included.
func TestForeignFiles(t *testing.T) {
	t.Parallel()
	now := moments(t, 1, false)[0].store
	old, keys, otherKeys := oldFile(t, "folder-be89be7", storeFile), oldFile(t, "folder-be89be7", keyFile), oldFile(t, "folder-314e373", keyFile)
	replaced := slices.Concat(keys[:slotSize], otherKeys[slotSize:])
	zeros := make([]byte, 64<<10)
	for name, test := range map[string]struct {
		store, keys []byte
		arrange     func(t *testing.T, dir string)
		say         string
	}{
		"zeros":                              {store: zeros, keys: keys, say: "not a file that Ferry wrote"},
		"zeros alone":                        {store: zeros, say: "not a file that Ferry wrote"},
		"a text":                             {store: []byte("clients:\n- name: a\n"), keys: keys, say: "not a file that Ferry wrote"},
		"an empty file beside keys":          {store: []byte{}, keys: keys, say: "belongs to it is not, or holds nothing"},
		"keys alone":                         {keys: keys, say: "belongs to it is not, or holds nothing"},
		"a new store beside keys":            {store: database(t, nil), keys: keys, say: "belongs to it is not, or holds nothing"},
		"a database of another program":      {store: database(t, map[string]string{"users": "root"}), say: "database of another program"},
		"a store of a newer Ferry":           {store: database(t, map[string]string{string(metaBucket): "3"}), say: "Start the Ferry that wrote it"},
		"a store that lacks a bucket":        {store: database(t, map[string]string{string(metaBucket): storeFormat}), say: "it has no items"},
		"no keys":                            {store: old, say: "cannot be opened"},
		"empty keys":                         {store: old, keys: []byte{}, say: "do not belong together"},
		"keys of another folder":             {store: old, keys: otherKeys, say: "do not belong together"},
		"keys of another day":                {store: old, keys: replaced, say: "of another time"},
		"keys that are cut off":              {store: old, keys: keys[:slotSize], say: "cut off"},
		"a folder in the place of the store": {keys: keys, arrange: folder(storeFile), say: "ferry.db is a folder"},
		"a folder in the place of the keys":  {store: old, arrange: folder(keyFile), say: "parameter-keys is a folder"},
		"a store that everybody may read":    {store: now, arrange: mode(storeFile, 0o644), say: "Everybody on this machine may read"},
		"keys that everybody may read":       {store: old, keys: keys, arrange: mode(keyFile, 0o604), say: "Everybody on this machine may read"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			writeFiles(t, dir, test.store, test.keys)
			if err := os.Chmod(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if test.arrange != nil {
				test.arrange(t, dir)
			}
			before := listing(t, dir)
			_, err := Open(t.Context(), Options{Dir: dir, Now: time.Now})
			if !refused(err) || !strings.Contains(err.Error(), test.say) || !strings.Contains(err.Error(), "Nothing was changed") {
				t.Errorf("Open: %v; want a *FolderError with %q", err, test.say)
			}
			if after := listing(t, dir); after != before {
				t.Errorf("the folder holds\n%s\nit held\n%s", after, before)
			}
		})
	}
	if _, err := Open(t.Context(), Options{Dir: t.TempDir()}); err == nil {
		t.Error("a store without a clock was opened")
	}
	if _, err := Open(t.Context(), Options{Dir: fileIn(t), Now: time.Now}); !refused(err) {
		t.Errorf("a file in the place of the folder: %v", err)
	}
}

func folder(name string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
}

func mode(name string, mode fs.FileMode) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
}

func fileIn(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// database is a file of bbolt with buckets, each with a format.
func database(t *testing.T, buckets map[string]string) []byte {
	t.Helper()
	dir := t.TempDir()
	db, err := bbolt.Open(filepath.Join(dir, storeFile), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		for name, format := range buckets {
			b, err := tx.CreateBucket([]byte(name))
			if err == nil {
				err = b.Put(formatKey, []byte(format))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	return readFile(t, dir, storeFile)
}

// listing is a folder with all that it holds.
func listing(t *testing.T, dir string) string {
	t.Helper()
	var text strings.Builder
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		fmt.Fprintln(&text, path, info.Mode())
		if e.Type().IsRegular() {
			fmt.Fprintf(&text, "%x\n", contentSum(readFile(t, filepath.Dir(path), e.Name())))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return text.String()
}

func contentSum(b []byte) checksum { return entrySum("", nil, b) }

// TestAccess: the owner's alone when Ferry makes them; the group may have been given rights, as Kubernetes does with a
// volume, and a folder may be open as long as what lies in it is not.
func TestAccess(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	dir := filepath.Join(parent, "data", "ferry")
	s, err := Open(t.Context(), Options{Dir: dir, Now: time.Now})
	if err != nil || s.Close() != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]fs.FileMode{".": 0o700, storeFile: 0o600} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, %v; want %v", name, info.Mode().Perm(), err, want)
		}
	}
	for _, change := range []func(){
		func() { mode(".", 0o777)(t, dir) },
		func() { mode(".", 0o770)(t, dir); mode(storeFile, 0o660)(t, dir) },
		func() { mode(".", 0o750)(t, dir); mode(storeFile, 0o644)(t, dir) },
	} {
		change()
		s, err := Open(t.Context(), Options{Dir: dir, Now: time.Now})
		if err != nil || s.Close() != nil {
			t.Errorf("%s\n%v", listing(t, dir), err)
		}
	}
}

// TestAFileThatIsCutOffWhileInUse: reads and writes fail, and say so; the process lives.
func TestAFileThatIsCutOffWhileInUse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := Open(t.Context(), Options{Dir: dir, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	mustPut(t, s, plain(bindingOf(1), "a", strings.Repeat("x", 100)), 0)
	if err := os.Truncate(filepath.Join(dir, storeFile), 0); err != nil {
		t.Fatal(err)
	}
	_, get := s.Get(t.Context(), bindingOf(1))
	_, put := s.Put(t.Context(), plain(bindingOf(2), "a", ""), 0)
	for name, err := range map[string]error{"get": get, "put": put, "ping": s.Ping(t.Context())} {
		if err == nil || errors.Is(err, broker.ErrNotFound) || errors.Is(err, broker.ErrConflict) {
			t.Errorf("%s: %v; want an error that says what is wrong", name, err)
		}
	}
	_ = s.Close() // it returns, whatever it says
}

// TestOpenSyncsFirst: nothing is overwritten on the word of a commit that may get lost.
func TestOpenSyncsFirst(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store, keys := oldFile(t, "folder-be89be7", storeFile), oldFile(t, "folder-be89be7", keyFile)
	writeFiles(t, dir, store, keys)
	before, lost := listing(t, dir), errors.New("the disk is gone")
	if _, err := Open(t.Context(), Options{Dir: dir, Now: time.Now, sync: func(*bbolt.DB) error { return lost }}); !errors.Is(err, lost) {
		t.Errorf("Open: %v; want the lost sync", err)
	}
	if after := listing(t, dir); after != before {
		t.Errorf("the folder holds\n%s\nit held\n%s", after, before)
	}
	s := openAt(t, dir, time.Now)
	if s.db.NoSync || s.db.NoGrowSync || s.db.NoFreelistSync {
		t.Error("commits are not synced")
	}
}

// TestAFirstStartThatWasCutShort is taken up by the next, wherever it ended; that of an older Ferry, too.
func TestAFirstStartThatWasCutShort(t *testing.T) {
	t.Parallel()
	keys := oldFile(t, "folder-be89be7", keyFile)
	for name, test := range map[string]struct{ store, unnamed []byte }{
		"before the store was anything": {store: []byte{}},
		"before it had buckets":         {store: database(t, nil)},
		"with half of its keys":         {store: database(t, nil), unnamed: keys[:100]},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			writeFiles(t, dir, test.store, nil)
			if test.unnamed != nil {
				if err := os.WriteFile(filepath.Join(dir, keyFile+unnamed), test.unnamed, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			s := openAt(t, dir, time.Now)
			mustPut(t, s, plain(bindingOf(1), "a", `{"x":1}`), 0)
			if there(filepath.Join(dir, keyFile+unnamed)) {
				t.Error("keys that nothing needs are left")
			}
			checkIndexes(t, s)
		})
	}
}
