// Command janitor drives operations that are due, keeps catalogs fresh and audits, on a schedule.
package main

import (
	"fmt"
	"os"

	"github.com/ferry-broker/ferry/internal/lambda"
)

func main() {
	if err := lambda.StartJanitor(os.LookupEnv, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
