// Command ferry is the broker for people: `ferry serve` runs it in one process, `ferry sim` a simulated Cloud Foundry,
// `ferry demo` shows what it is for.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// version and commit are set by the linker (see the Makefile).
var (
	version = "dev"
	commit  = "none"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, environment{
		args: os.Args[1:], stdout: os.Stdout, stderr: os.Stderr, lookupEnv: os.LookupEnv,
		version: version, commit: commit, terminal: isTerminal(os.Stderr),
	}))
}
