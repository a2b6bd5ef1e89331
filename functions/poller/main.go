// Command poller does one tick of one operation, or the few that follow shortly, each time that Step Functions calls
// it.
package main

import (
	"fmt"
	"os"

	"github.com/ferry-broker/ferry/internal/lambda"
)

func main() {
	if err := lambda.StartPoller(os.LookupEnv, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
