package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/config"
	"github.com/ferry-broker/ferry/internal/demo"
)

// Demo walks a platform's life against a broker and a simulated Cloud Foundry in
// this process and prints it. The error is an *ExitError when an answer was not the
// one expected.
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
				BrokerURL: brokerURL, SimulatorURL: simulatorURL, Username: login.Username, Password: login.Password,
				Pause: func(ctx context.Context) error { return broker.Sleep(ctx, 50*time.Millisecond) },
			}
		},
	}
}
