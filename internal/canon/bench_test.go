package canon_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ferry-broker/ferry/internal/canon"
)

// The time for a byte should not grow with the text, whatever its shape.
func BenchmarkCanonical(b *testing.B) {
	shapes := map[string]func(size int) string{
		"wide":  func(size int) string { return object(size/10, "") },
		"deep":  func(size int) string { return deepObjects(size) },
		"zeros": func(size int) string { return "[" + strings.Repeat("0,", size/2) + "0]" },
		"text":  func(size int) string { return `"` + strings.Repeat(`\u00e9`, size/6) + `"` },
	}
	for name, shape := range shapes {
		for _, size := range []int{1 << 14, 1 << 18} {
			text := []byte(shape(size))
			b.Run(fmt.Sprintf("%s/%d", name, size), func(b *testing.B) {
				b.SetBytes(int64(len(text)))
				for b.Loop() {
					if _, err := canon.Canonical(text); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// deepObjects nests as deep as allowed around a string, each level unsorted.
func deepObjects(size int) string {
	levels := canon.MaxDepth
	return strings.Repeat(`{"z":`, levels) + `"` + strings.Repeat("x", size) + `"` + strings.Repeat(`,"a":1}`, levels)
}
