//go:build local

// Command api with the tag `local` is for `sam local`: it holds the whole broker and a simulated Cloud Foundry, and
// needs nothing else. It is never deployed.
package main

import (
	"fmt"
	"os"

	"github.com/ferry-broker/ferry/internal/lambda/local"
)

func main() {
	if err := local.Start(os.LookupEnv, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
