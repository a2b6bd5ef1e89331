package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/cfsim"
	"github.com/ferry-broker/ferry/internal/config"
	"github.com/ferry-broker/ferry/internal/demo"
)

// SimOptions say how fast the simulated Cloud Foundry works.
type SimOptions struct {
	Listen                                             string
	JobDelay, BrokerDelay, PollInterval, BrokerTimeout time.Duration
	// Faithful takes the figures of a real Cloud Controller.
	Faithful bool
	// The rest are those of cfsim.Options.
	RecursiveDelete bool
	RateLimit       int
	RateWindow      time.Duration
	RetryAfterUnix  bool
	NamesIgnoreCase bool
	Korifi          bool
}

// DefaultSimOptions returns the figures meant for people at a keyboard.
func DefaultSimOptions() SimOptions {
	d := cfsim.DefaultOptions()
	return SimOptions{
		Listen: "127.0.0.1:8081", JobDelay: d.JobDelay, BrokerDelay: d.BrokerDelay,
		PollInterval: d.PollInterval, BrokerTimeout: d.BrokerTimeout, RateWindow: time.Second,
	}
}

func (o SimOptions) options(logger *slog.Logger) cfsim.Options {
	c := cfsim.Options{
		JobDelay: o.JobDelay, BrokerDelay: o.BrokerDelay, PollInterval: o.PollInterval,
		BrokerTimeout: o.BrokerTimeout, Now: time.Now, Logger: logger,
		RecursiveDelete: o.RecursiveDelete, RateLimit: o.RateLimit, RateWindow: o.RateWindow, Korifi: o.Korifi,
		RetryAfterUnix: o.RetryAfterUnix, NamesIgnoreCase: o.NamesIgnoreCase,
	}
	if o.Faithful {
		c = c.Faithful()
	}
	return c
}

// simulator is a simulated Cloud Foundry that listens.
type simulator struct {
	sim      *cfsim.Simulator
	server   *http.Server
	listener net.Listener
}

func startSimulator(ctx context.Context, flag string, o SimOptions, logger *slog.Logger) (*simulator, error) {
	listener, err := listen(ctx, flag, o.Listen)
	if err != nil {
		return nil, err
	}
	sim := cfsim.New(o.options(logger))
	s := &simulator{sim: sim, server: newServer(sim.Handler(), o.BrokerTimeout+time.Minute), listener: listener}
	go func() { _ = s.server.Serve(listener) }() // ends with close, whose error is the one that counts
	logger.Info("the simulated Cloud Foundry listens", "url", s.url(), "control", s.url()+"/__sim/state")
	return s, nil
}

func (s *simulator) url() string { return "http://" + s.listener.Addr().String() }

func (s *simulator) close() {
	s.sim.Close()
	_ = s.server.Close()
}

// Sim runs the simulated Cloud Foundry alone until ctx ends. Errors are *ExitError.
func Sim(ctx context.Context, o SimOptions, logger *slog.Logger) error {
	s, err := startSimulator(ctx, "--listen", o, logger)
	if err != nil {
		return err
	}
	<-ctx.Done()
	s.sim.Close() // lets go of requests that a simulated delay holds
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	err = s.server.Shutdown(stop)
	s.close()
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return failure(err, "The simulator did not stop in order: %v.", err)
	}
	return nil
}

// Demo walks a platform's life against a broker and a simulated Cloud Foundry in this process and prints it. The error
// is an *ExitError when an answer was not the one expected.
func Demo(ctx context.Context, out io.Writer, version string) error {
	ctx, stop := context.WithTimeout(ctx, 2*time.Minute)
	defer stop()
	served, started := make(chan error, 1), make(chan demo.Options, 1)
	serveCtx, end := context.WithCancel(ctx)
	defer end()
	go func() { served <- Serve(serveCtx, demoOptions(version, started)) }()
	var err error
	select {
	case err = <-served:
		return err
	case o := <-started:
		o.Out = out
		err = demo.Run(ctx, o)
	}
	end()
	if serveErr := <-served; err == nil {
		err = serveErr
	}
	if errors.Is(err, demo.ErrUnexpected) || errors.Is(err, context.DeadlineExceeded) {
		return failure(err, "The demo failed: %v.", err)
	}
	return err
}

// demoOptions make everything quick, and keep the log out of the show.
func demoOptions(version string, started chan<- demo.Options) ServeOptions {
	c := config.Demo()
	c.Polling = config.Polling{First: 50 * time.Millisecond, Max: 200 * time.Millisecond}
	sim := DefaultSimOptions()
	sim.Listen = "127.0.0.1:0"
	login := c.Clients[0].Credentials[0]
	return ServeOptions{
		Config: c, Listen: "127.0.0.1:0", Simulate: true, Sim: sim, Version: version,
		Logger:    slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
		LookupEnv: os.LookupEnv,
		Started: func(brokerURL, simulatorURL string) {
			started <- demo.Options{
				BrokerURL: brokerURL, SimulatorURL: simulatorURL, Username: login.Username, Password: login.Password.Text(),
				Pause: func(ctx context.Context) error { return broker.Sleep(ctx, 50*time.Millisecond) },
			}
		},
	}
}
