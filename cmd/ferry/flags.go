package main

import (
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ferry-broker/ferry/internal/server"
)

// fromEnvironment sets each flag that the command line leaves out from its variable, FERRY_ and the flag's name in
// capitals. It reports every bad value.
func fromEnvironment(cmd *cobra.Command, env environment) error {
	var bad []string
	cmd.Flags().VisitAll(func(f *flag) {
		name := "FERRY_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		value, _ := env.lookupEnv(name)
		// Empty is what unit and compose files make of a variable that is not set.
		if value == "" || f.Changed || f.Name == "help" {
			return
		}
		if err := f.Value.Set(value); err != nil {
			bad = append(bad, fmt.Sprintf("%s: %q is no %s, which the flag --%s takes.", name, value, f.Value.Type(), f.Name))
		}
	})
	return usage(bad)
}

// usage is nil for no faults, else all of them, one a line.
func usage(faults []string) error {
	if len(faults) == 0 {
		return nil
	}
	return &server.ExitError{Code: server.ExitUsage, Message: strings.Join(faults, "\n")}
}

// settle reads the environment and makes the logger. Its error has every fault of both, and those that check finds.
func settle(cmd *cobra.Command, env environment, logs *logFlags, check func() []string) (*slog.Logger, error) {
	var faults []string
	if err := fromEnvironment(cmd, env); err != nil {
		faults = append(faults, err.Error())
	}
	logger, bad := logs.logger(env)
	faults = append(append(faults, bad...), check()...)
	return logger, usage(faults)
}

// logFlags choose how the process logs.
type logFlags struct{ format, level string }

func (l *logFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&l.format, "log-format", "", "text or json (text on a terminal, else json)")
	cmd.Flags().StringVar(&l.level, "log-level", "info", "debug, info, warn or error")
}

func (l *logFlags) logger(env environment) (logger *slog.Logger, faults []string) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(l.level)); err != nil {
		faults = append(faults, fmt.Sprintf("--log-level %q is none of debug, info, warn and error.", l.level))
	}
	options := &slog.HandlerOptions{Level: level}
	switch {
	case l.format == "text", l.format == "" && env.terminal:
		return slog.New(slog.NewTextHandler(env.stderr, options)), faults
	case l.format == "json", l.format == "":
		return slog.New(slog.NewJSONHandler(env.stderr, options)), faults
	default:
		return nil, append(faults, fmt.Sprintf("--log-format %q is neither text nor json.", l.format))
	}
}

// hint is where lines for newcomers go: nowhere when a machine reads.
func (l *logFlags) hint(env environment) io.Writer {
	if l.format == "text" || l.format == "" && env.terminal {
		return env.stderr
	}
	return nil
}

// simFaults are what is wrong with the simulator's flags.
func simFaults(prefix string, o server.SimOptions) []string {
	var faults []string
	if o.Listen == "" {
		faults = append(faults, fmt.Sprintf("--%slisten is empty; give an address such as 127.0.0.1:0.", prefix))
	}
	for name, d := range map[string]time.Duration{
		"job-delay": o.JobDelay, "broker-delay": o.BrokerDelay,
		"poll-interval": o.PollInterval, "broker-timeout": o.BrokerTimeout, "rate-window": o.RateWindow,
	} {
		if d < 0 {
			faults = append(faults, fmt.Sprintf("--%s%s %s is below zero; give a duration such as 50ms.", prefix, name, d))
		}
	}
	if o.RateLimit < 0 {
		faults = append(faults, fmt.Sprintf("--%srate-limit %d is below zero; give a number of requests, or 0 for no limit.", prefix, o.RateLimit))
	}
	slices.Sort(faults)
	return faults
}

// addSim adds the simulator's flags under a prefix.
func addSim(cmd *cobra.Command, prefix string, o *server.SimOptions) {
	f := cmd.Flags()
	duration := func(p *time.Duration, name, help string) { f.DurationVar(p, prefix+name, *p, help) }
	f.StringVar(&o.Listen, prefix+"listen", o.Listen, "the address of the simulated Cloud Foundry")
	duration(&o.JobDelay, "job-delay", "how long a Cloud Controller worker takes to pick a job up")
	duration(&o.BrokerDelay, "broker-delay", "how long an asynchronous backing broker works")
	duration(&o.PollInterval, "poll-interval", "how often the Cloud Controller polls that broker")
	duration(&o.BrokerTimeout, "broker-timeout", "how long the Cloud Controller waits for the backing broker's answer")
	f.BoolVar(&o.Faithful, prefix+"faithful", false, "the real figures of a Cloud Controller: 5s, 60s, 60s")
	f.BoolVar(&o.RecursiveDelete, prefix+"recursive-delete", false, "delete instances by the newer pipeline, which waits for their keys")
	f.IntVar(&o.RateLimit, prefix+"rate-limit", 0, "requests of one login in each --"+prefix+"rate-window; above: 429 (0: no limit)")
	duration(&o.RateWindow, "rate-window", "how long --"+prefix+"rate-limit counts")
	f.BoolVar(&o.RetryAfterUnix, prefix+"retry-after-unix", false, "a Unix time in Retry-After while --"+prefix+"rate-limit refuses, as older Cloud Controllers send it")
	f.BoolVar(&o.NamesIgnoreCase, prefix+"names-ignore-case", false, "a database that ignores case in names of instances and keys")
	f.BoolVar(&o.Korifi, prefix+"korifi", false, "answer as Korifi does where it differs from a classic Cloud Controller")
}
