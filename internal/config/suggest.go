package config

import "strings"

// closest returns the known key that a misspelt one most likely stands for, ""
// when none is near. Case, dashes and underscores do not count, so that
// clientId finds client_id.
func closest(key string, known []string) string {
	const longest = 40 // of what is worth comparing
	if len(key) > longest {
		return ""
	}
	best, bestDistance := "", 0
	for _, k := range known {
		d := distance(fold(key), fold(k))
		if d <= max(1, min(2, len(k)/3)) && (best == "" || d < bestDistance) {
			best, bestDistance = k, d
		}
	}
	return best
}

func fold(key string) string {
	return strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(key))
}

// distance counts the bytes to insert, remove or replace to turn a into b, two
// swapped neighbours counting as one step.
func distance(a, b string) int {
	before, row := []int(nil), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next := make([]int, len(b)+1)
		next[0] = i
		for j := 1; j <= len(b); j++ {
			changed := 1
			if a[i-1] == b[j-1] {
				changed = 0
			}
			next[j] = min(row[j]+1, next[j-1]+1, row[j-1]+changed)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)]
}
