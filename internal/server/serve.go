// Package server puts a process together from its configuration. It is the one place that knows all the others; it
// decides nothing else.
package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/ferry-broker/ferry/internal/api"
	"github.com/ferry-broker/ferry/internal/bolt"
	"github.com/ferry-broker/ferry/internal/config"
)

// ServeOptions are what `ferry serve` was told.
type ServeOptions struct {
	// ConfigFile is the configuration; empty with Simulate for the demo client.
	ConfigFile string
	// Config is used instead of a file when it has clients.
	Config config.Config
	Listen string
	// BasePath is what stands before /v2 in the paths that arrive; see CheckBasePath.
	BasePath string
	// Data is the folder of the store; empty with Simulate for a temporary one.
	Data string
	// Simulate starts the simulated Cloud Foundry in this process too.
	Simulate bool
	Sim      SimOptions

	Version, Commit string
	Logger          *slog.Logger
	LookupEnv       func(string) (string, bool)
	// Started is called with the broker's and the simulator's addresses once the broker listens; may be nil.
	Started func(brokerURL, simulatorURL string)
	// Hangups are signals that do nothing but leave a line in the log; may be nil.
	Hangups <-chan os.Signal
	// Hint receives a line that a newcomer can copy; may be nil.
	Hint io.Writer

	// mostConnections is for tests; 0: four for each request that may be answered at once, and fewestConnections at
	// least.
	mostConnections int
}

// DefaultData is where `serve` keeps its store.
const DefaultData = ".ferry"

// Serve runs the broker in this process until ctx ends: bbolt store, in-process workflow, Cloud Foundry real or
// simulated. Errors are *ExitError.
func Serve(ctx context.Context, o ServeOptions) error {
	c, err := o.configuration()
	if err != nil {
		return err
	}
	listener, err := listen(ctx, "--listen", o.Listen)
	if err != nil {
		return err
	}
	defer func() { _ = listener.Close() }()
	return o.withStore(ctx, func(store *bolt.Store) error {
		return o.withSimulator(ctx, &c, func(simulatorURL string) error {
			return o.run(ctx, c, store, listener, simulatorURL)
		})
	})
}

// CheckBasePath returns what is wrong with a base path, a sentence that names the flag; nil when nothing is.
func CheckBasePath(path string) error {
	if _, err := api.ParseBasePath(path); err != nil {
		return usage("--base-path %q %v.", path, err)
	}
	return nil
}

// configuration reads the file, or takes the demo's when the simulator stands behind.
func (o ServeOptions) configuration() (config.Config, error) {
	if err := CheckBasePath(o.BasePath); err != nil {
		return config.Config{}, err
	}
	switch {
	case len(o.Config.Clients) > 0:
		c := o.Config
		c.Clients = slices.Clone(c.Clients) // the simulator's address is put into them
		return c, nil
	case o.ConfigFile != "":
		return readConfig(o.ConfigFile, o.LookupEnv)
	case !o.Simulate:
		return config.Config{}, usage("serve needs a configuration: give --config FILE, or --simulate-cf for a first look without one.")
	case !isLoopback(o.Listen):
		return config.Config{}, usage("--listen %s: the demo client's password is known to everybody, so that without --config only a loopback address such as 127.0.0.1:8080 may be used.", o.Listen)
	}
	return config.Demo(), nil
}

func readConfig(file string, lookupEnv func(string) (string, bool)) (config.Config, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return config.Config{}, &ExitError{Code: ExitUsage, Cause: err, Message: "The configuration cannot be read: " + err.Error() + ". Check --config."}
	}
	c, err := config.Parse(file, text, lookupEnv, os.ReadFile)
	if err != nil {
		return config.Config{}, &ExitError{Code: ExitUsage, Cause: err, Message: err.Error()}
	}
	return c, nil
}

// withStore opens the data folder for as long as f runs.
func (o ServeOptions) withStore(ctx context.Context, f func(*bolt.Store) error) error {
	dir, remove, err := o.dataFolder()
	if err != nil {
		return err
	}
	defer remove()
	store, err := bolt.Open(ctx, bolt.Options{Dir: dir, Now: time.Now, Logger: o.Logger})
	if errors.Is(err, bolt.ErrInUse) {
		return failure(err, "The data folder %s is in use by another process. Stop that one, or choose another folder with --data.", dir)
	}
	if fault, ok := errors.AsType[*bolt.FolderError](err); ok {
		return failure(err, "The data folder %s cannot be used: %s. %s.", dir, fault.What, fault.Do)
	}
	if err != nil {
		return failure(err, "The data folder %s cannot be opened: %v.", dir, err)
	}
	err = f(store)
	if closeErr := store.Close(); err == nil && closeErr != nil {
		return failure(closeErr, "The store did not close in order: %v.", closeErr)
	}
	return err
}

func (o ServeOptions) dataFolder() (string, func(), error) {
	if o.Data != "" || !o.Simulate {
		dir := o.Data
		if dir == "" {
			dir = DefaultData
		}
		return dir, func() {}, nil
	}
	dir, err := os.MkdirTemp("", "ferry-")
	if err != nil {
		return "", nil, failure(err, "No temporary folder can be made: %v. Give one with --data.", err)
	}
	return dir, func() { _ = os.RemoveAll(dir) }, nil
}

// withSimulator starts the simulator when asked for, and points clients that name no Cloud Foundry at it.
func (o ServeOptions) withSimulator(ctx context.Context, c *config.Config, f func(simulatorURL string) error) error {
	if !o.Simulate {
		return f("")
	}
	s, err := startSimulator(ctx, "--sim-listen", o.Sim, o.Logger)
	if err != nil {
		return err
	}
	defer s.close()
	for i := range c.Clients {
		if c.Clients[i].CloudFoundry.API == "" {
			c.Clients[i].CloudFoundry.API = s.url()
		}
	}
	return f(s.url())
}

func (o ServeOptions) run(ctx context.Context, c config.Config, store *bolt.Store, listener net.Listener, simulatorURL string) error {
	p, err := newProcess(c, store, o)
	if err != nil {
		return err
	}
	return p.live(ctx, func(resumed int) error { return p.serve(ctx, listener, simulatorURL, resumed) })
}

// nowhere is no address that anybody else could reach: who may call an embedded broker is for its embedder to say, so
// that the demo client may be served.
const nowhere = "127.0.0.1:0"

// Embed runs the broker as Serve does, but opens no address for it: answer is called with the handler, which may be
// used concurrently, and with the simulator's URL (empty without Simulate). The broker lives until answer returns, and
// is closed before Embed does. Listen, Started and Hint are not looked at. Errors are
// *ExitError, or answer's.
func Embed(ctx context.Context, o ServeOptions, answer func(handler http.Handler, simulatorURL string) error) error {
	o.Listen = nowhere
	c, err := o.configuration()
	if err != nil {
		return err
	}
	return o.withStore(ctx, func(store *bolt.Store) error {
		return o.withSimulator(ctx, &c, func(simulatorURL string) error {
			p, err := newProcess(c, store, o)
			if err != nil {
				return err
			}
			return p.live(ctx, func(int) error { return answer(p.server.Handler, simulatorURL) })
		})
	})
}

// The exit codes that scripts rely on.
const (
	ExitFailure = 1
	ExitUsage   = 2
)

// ExitError ends the process with a code and a sentence for the person who started it.
type ExitError struct {
	Code    int
	Message string
	Cause   error
}

// Error returns the sentence.
func (e *ExitError) Error() string { return e.Message }

// Unwrap returns what was behind it.
func (e *ExitError) Unwrap() error { return e.Cause }

func usage(format string, args ...any) error {
	return &ExitError{Code: ExitUsage, Message: fmt.Sprintf(format, args...)}
}

func failure(cause error, format string, args ...any) error {
	return &ExitError{Code: ExitFailure, Message: fmt.Sprintf(format, args...), Cause: cause}
}
