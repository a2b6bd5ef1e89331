// Command poller does one tick of one operation, or the few that follow shortly, each
// time that Step Functions calls it.
package main

import (
	"fmt"
	"os"

	"github.com/ferry-broker/ferry/internal/wire/functions"
)

func main() {
	if err := functions.StartPoller(os.LookupEnv, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
