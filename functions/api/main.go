//go:build !local

// Command api answers the platforms' requests that API Gateway hands to Lambda.
package main

import (
	"fmt"
	"os"

	"github.com/ferry-broker/ferry/internal/lambda"
)

func main() {
	if err := lambda.StartAPI(os.LookupEnv, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
