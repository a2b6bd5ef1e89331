package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/ferry-broker/ferry/internal/server"
)

// environment is all that the process was given from outside.
type environment struct {
	args            []string
	stdout, stderr  io.Writer
	lookupEnv       func(string) (string, bool)
	version, commit string
	// terminal says that stderr is one, so that logs are for people.
	terminal bool
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// run executes a command line and returns the exit code: 0, 1 for a failure, 2 for
// wrong flags or configuration.
func run(ctx context.Context, env environment) int {
	root := newRoot(env)
	root.SetArgs(env.args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	_, _ = fmt.Fprintln(env.stderr, err.Error())
	if e, ok := errors.AsType[*server.ExitError](err); ok {
		return e.Code
	}
	return server.ExitUsage // cobra's own: an unknown command or flag
}

func newRoot(env environment) *cobra.Command {
	root := &cobra.Command{
		Use:   "ferry",
		Short: "An Open Service Broker in front of Cloud Foundry, for platforms that send everything twice",
		Long: "Ferry is an Open Service Broker: it carries the marketplace of a Cloud Foundry to OpenShift,\n" +
			"Kubernetes and every other platform that speaks OSB. However often a platform sends a\n" +
			"request, one request leads to one thing in Cloud Foundry.\n\n" +
			"Each flag has an environment variable: FERRY_ and the flag's name in capitals, as in\n" +
			"FERRY_LISTEN. A flag on the command line goes first.",
		SilenceUsage: true, SilenceErrors: true,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetOut(env.stdout)
	root.SetErr(env.stderr)
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetHelpCommand(newHelp(root))
	root.AddCommand(newServe(env), newSim(env), newDemo(env), newVersion(env))
	return root
}

// newHelp is cobra's help command, but for a name that is no command.
func newHelp(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use: "help [command]", Short: "Print the help of a command",
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return &server.ExitError{Code: server.ExitUsage, Message: fmt.Sprintf("There is no command %q. `ferry help` lists them.", strings.Join(args, " "))}
			}
			cmd.InitDefaultHelpFlag()
			return cmd.Help()
		},
	}
}

func newVersion(env environment) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print version, commit and Go version", Args: cobra.NoArgs,
		Run: func(*cobra.Command, []string) {
			_, _ = fmt.Fprintf(env.stdout, "ferry %s (commit %s, %s)\n", env.version, env.commit, runtime.Version())
		},
	}
}
