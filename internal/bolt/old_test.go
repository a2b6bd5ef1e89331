package bolt

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/bbolt"
)

// TestAnOldFolderOpens: testdata/folder1 was written by a Ferry that stored no sum. It is
// read, written, and opened again; and so is one that such a Ferry has written since.
func TestAnOldFolderOpens(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "folder1"))); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{storeFile, keyFile} { // git keeps no such modes
		if err := os.Chmod(filepath.Join(dir, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for round := range 3 {
		s, err := Open(t.Context(), Options{Dir: dir, Now: time.Now})
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		for n, want := range map[int]string{0: "", 1: `{"password":"x"}`, 2: ""} {
			r, err := s.Get(t.Context(), bindingOf(n))
			if err != nil || string(r.Parameters) != want {
				t.Errorf("round %d: record %d has %q, %v; want %q", round, n, r.Parameters, err, want)
			}
		}
		c, err := s.Catalog(t.Context(), "client")
		if err != nil || string(c.Body) != `{"services":[]}` {
			t.Errorf("round %d: catalog %s, %v", round, c.Body, err)
		}
		page, err := s.Unfinished(t.Context(), time.Now(), "", 100)
		if err != nil || len(page.Operations) != 30+round {
			t.Errorf("round %d: %d operations, %v", round, len(page.Operations), err)
		}
		mustPut(t, s, plain(bindingOf(100+round), "new", `{"x":1}`), 0)
		checkIndexes(t, s)
		if round == 1 { // an older Ferry's commit leaves the sum as it is
			err = s.db.Update(func(*bbolt.Tx) error { return nil })
		}
		if err != nil || s.Close() != nil {
			t.Fatal(err)
		}
	}
}
