package main

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ferry-broker/ferry/internal/server"
)

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
