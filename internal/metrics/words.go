package metrics

import (
	"strings"
	"sync"
)

const (
	// maxWords is how many values one label may have. Ferry's own words are far
	// fewer; whatever comes later counts as other.
	maxWords = 64
	other    = "other"
)

// words bounds the values of one label.
type words struct {
	mu    sync.RWMutex
	known map[string]bool
}

func newWords() *words { return &words{known: map[string]bool{}} }

// of returns the value to use for word.
func (w *words) of(word string) string {
	w.mu.RLock()
	known := w.known[word]
	w.mu.RUnlock()
	if known {
		return word
	}
	return w.admit(clean(word))
}

func (w *words) admit(word string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.known[word] && len(w.known) >= maxWords {
		return other
	}
	w.known[word] = true
	return word
}

// clean makes a value that Prometheus takes: its library panics at what is not UTF-8.
func clean(word string) string { return strings.ToValidUTF8(word, "?") }
