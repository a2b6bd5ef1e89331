package process

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// vault makes secrets and knows them again, in the forms in which they could leak.
type vault struct {
	mu    sync.Mutex
	words map[string]string // by what they are
}

func newVault() *vault { return &vault{words: map[string]string{}} }

// word returns a new secret. What it is stands in the report, never in the word.
func (v *vault) word(what string) string {
	w := "zq" + strings.ToLower(rand.Text())
	v.add(what, w)
	return w
}

// add takes a secret that somebody else made.
func (v *vault) add(what, word string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.words[what] = word
}

// parameters returns parameters with a secret in a value, deep inside.
func (v *vault) parameters(what string) map[string]any {
	return map[string]any{"deep": []any{map[string]any{"password": v.word(what)}}}
}

// split returns all secrets but one, and that one.
func (v *vault) split(what string) (others, one *vault) {
	v.mu.Lock()
	defer v.mu.Unlock()
	others, one = newVault(), newVault()
	maps.Copy(others.words, v.words)
	delete(others.words, what)
	one.words[what] = v.words[what]
	return others, one
}

// find returns a sentence for each secret in the text.
func (v *vault) find(place string, text []byte) (findings []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for what, word := range v.words {
		for form, disguised := range disguises(word) {
			if at := bytes.Index(text, disguised); at >= 0 {
				line := text[bytes.LastIndexByte(text[:at], '\n')+1 : at]
				findings = append(findings, fmt.Sprintf("%s holds the secret of %s (%s), after %.300q", place, what, form, line))
			}
		}
	}
	return findings
}

// seek fails the test for each secret in the text.
func (v *vault) seek(t *testing.T, place string, text []byte) {
	t.Helper()
	for _, finding := range v.find(place, text) {
		t.Error(finding)
	}
}

// seekFiles looks at every byte of every file below the folder.
func (v *vault) seekFiles(t *testing.T, when, folder string) {
	t.Helper()
	for _, finding := range v.findInFiles(t, when, folder) {
		t.Error(finding)
	}
}

func (v *vault) findInFiles(t *testing.T, when, folder string) (findings []string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		raw, err := os.ReadFile(name)
		findings = append(findings, v.find(fmt.Sprintf("%s, the file %s", when, entry.Name()), raw)...)
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return findings
}

// disguises are a word as it is, in hex, and in base64 at each of the three places
// where it can begin within a group of bytes, without what depends on neighbours.
func disguises(word string) map[string][]byte {
	forms := map[string][]byte{
		"plain": []byte(word),
		"hex":   []byte(hex.EncodeToString([]byte(word))),
		"HEX":   []byte(strings.ToUpper(hex.EncodeToString([]byte(word)))),
	}
	for shift := range 3 {
		padded := append(make([]byte, shift), word...)
		usable := len(padded) / 3 * 3
		encoded := base64.StdEncoding.EncodeToString(padded[:usable])
		forms[fmt.Sprintf("base64, shifted by %d", shift)] = []byte(encoded[(shift+2)/3*4:])
	}
	return forms
}

func TestVaultKnowsDisguises(t *testing.T) {
	t.Parallel()
	for before := range 4 {
		text := strings.Repeat("-", before) + "a secret word of some length" + "!"
		encoded := base64.StdEncoding.EncodeToString([]byte(text))
		found := false
		for _, form := range disguises("a secret word of some length") {
			found = found || strings.Contains(encoded, string(form))
		}
		if !found {
			t.Errorf("not found in base64 after %d bytes", before)
		}
	}
}
