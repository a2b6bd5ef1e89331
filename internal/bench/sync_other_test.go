//go:build !linux

package bench

import "os"

// dataSync is the nearest to what bbolt calls here.
func dataSync(f *os.File) error { return f.Sync() }
