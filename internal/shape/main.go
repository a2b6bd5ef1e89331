// Command shape measures how the code is cut: how long files and functions are, how much of what is exported has a
// comment, and through how many files and functions one request runs. `make shape` runs it, instrumented for coverage,
// from the root of the project.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "shape:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	product, simulator, err := measure(".")
	if err != nil {
		return err
	}
	if err := printCut(out, product, simulator); err != nil {
		return err
	}
	walks, err := walk(ctx)
	if err != nil {
		return err
	}
	return printWalks(out, walks)
}
