package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
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

// run executes a command line and returns the exit code: 0, 1 for a failure, 2 for wrong flags or configuration.
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

type flag = pflag.Flag

func newServe(env environment) *cobra.Command {
	o := server.ServeOptions{Sim: server.DefaultSimOptions()}
	o.Sim.Listen = "127.0.0.1:0"
	var logs logFlags
	cmd := &cobra.Command{
		Use: "serve", Short: "Run the broker in one process", Args: cobra.NoArgs,
		Long: "Run the broker in one process: an embedded store, an in-process workflow.\n\n" +
			"For a first look, without Cloud Foundry and without a configuration:\n\n  ferry serve --simulate-cf",
	}
	f := cmd.Flags()
	f.StringVar(&o.ConfigFile, "config", "", "the configuration file (YAML)")
	f.StringVar(&o.Listen, "listen", "127.0.0.1:8080", "the address that platforms reach")
	f.StringVar(&o.BasePath, "base-path", "", "what stands before /v2 in the paths that arrive, such as /broker, when a gateway in front keeps it (none)")
	f.StringVar(&o.Data, "data", "", "the folder of the store ("+server.DefaultData+"; with --simulate-cf a temporary one)")
	f.BoolVar(&o.Simulate, "simulate-cf", false, "start a simulated Cloud Foundry in this process too")
	addSim(cmd, "sim-", &o.Sim)
	logs.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		logger, err := settle(cmd, env, &logs, func() []string { return serveFaults(o) })
		if err != nil {
			return err
		}
		o.Version, o.Commit, o.Logger, o.LookupEnv = env.version, env.commit, logger, env.lookupEnv
		o.Hint = logs.hint(env)
		hangups := make(chan os.Signal, 1)
		signal.Notify(hangups, syscall.SIGHUP)
		defer signal.Stop(hangups)
		o.Hangups = hangups
		return server.Serve(cmd.Context(), o)
	}
	return cmd
}

func serveFaults(o server.ServeOptions) []string {
	faults := simFaults("sim-", o.Sim)
	if o.Listen == "" {
		faults = append(faults, "--listen is empty; give an address such as 127.0.0.1:8080.")
	}
	if err := server.CheckBasePath(o.BasePath); err != nil {
		faults = append(faults, err.Error())
	}
	return faults
}

func newSim(env environment) *cobra.Command {
	o := server.DefaultSimOptions()
	var logs logFlags
	cmd := &cobra.Command{
		Use: "sim", Short: "Run the simulated Cloud Foundry alone", Args: cobra.NoArgs,
		Long: "Run the simulated Cloud Foundry alone, so that the broker can be stopped and started\n" +
			"while \"Cloud Foundry\" lives on. Its control is under /__sim, without credentials.",
	}
	addSim(cmd, "", &o)
	logs.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		logger, err := settle(cmd, env, &logs, func() []string { return simFaults("", o) })
		if err != nil {
			return err
		}
		return server.Sim(cmd.Context(), o, logger)
	}
	return cmd
}

func newDemo(env environment) *cobra.Command {
	return &cobra.Command{
		Use: "demo", Short: "Show in a minute what Ferry is for", Args: cobra.NoArgs,
		Long: "Start the broker and a simulated Cloud Foundry, walk a platform's life against them\n" +
			"(requests sent several times, at once and again) and check every answer.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return server.Demo(cmd.Context(), env.stdout, env.version)
		},
	}
}
