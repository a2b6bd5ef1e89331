package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/ferry-broker/ferry/internal/api"
	"github.com/ferry-broker/ferry/internal/bolt"
	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/config"
	"github.com/ferry-broker/ferry/internal/loop"
	"github.com/ferry-broker/ferry/internal/metrics"
	"github.com/ferry-broker/ferry/internal/setup"
)

const (
	// restartWorkers is how many overdue operations are restarted at once.
	restartWorkers = 8
	// roundTime bounds a round of each minute, so that the next one is not late.
	roundTime = 50 * time.Second
	// firstAudit is how long after a start the first audit is due at the earliest: what the start resumes comes before
	// it. auditRetry is the pause after one that failed.
	firstAudit = 10 * time.Minute
	auditRetry = time.Hour
)

// process is one running broker.
type process struct {
	options  ServeOptions
	store    *bolt.Store
	loop     *loop.Loop
	assembly *setup.Assembly
	server   *http.Server
	// connections are those of server.
	connections *connections
	stop        chan struct{}
	figures     *metrics.Metrics
	logger      *slog.Logger
}

func newProcess(c config.Config, store *bolt.Store, o ServeOptions) (*process, error) {
	for _, w := range c.Warnings() {
		o.Logger.Warn(w)
	}
	p := &process{options: o, store: store, stop: make(chan struct{}), figures: metrics.New(), logger: o.Logger}
	p.figures.Build(o.Version, o.Commit, runtime.Version())
	p.loop = loop.New(loop.Options{Now: time.Now, Logger: o.Logger})
	var err error
	p.assembly, err = setup.New(c, setup.Parts{
		Store: store, Workflow: p.loop, Now: time.Now, Logger: o.Logger, Figures: p.figures,
		// bbolt locks its file: whoever has it open is alone.
		Process: setup.NewProcessName(), OnlyProcess: true,
	})
	if err != nil {
		return nil, &ExitError{Code: ExitUsage, Cause: err, Message: err.Error()}
	}
	p.loop.Use(p.assembly.Broker)
	p.server = newServer(p.newHandler(), c.Operations.RequestBudget)
	p.connections = boundConnections(p.server, cmp.Or(o.mostConnections, max(fewestConnections, 4*c.Limits.ConcurrentRequests)))
	return p, nil
}

func (p *process) newHandler() http.Handler {
	basePath, _ := api.ParseBasePath(p.options.BasePath) // checked before the configuration
	return p.assembly.Handler(setup.Border{
		BasePath: basePath, Metrics: p.figures.Handler(), Stop: p.stop,
		CatalogKnown: func(_ context.Context, client string) bool { return p.assembly.Catalog.Ready(client) },
	})
}

// live keeps going what works behind the requests for as long as answer runs. None of it outlives live, whose caller
// closes the store next.
func (p *process) live(ctx context.Context, answer func(resumed int) error) error {
	background, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	defer func() {
		cancel()
		p.closeLoop(ctx)
		running.Wait()
	}()
	running.Go(func() { p.assembly.Catalog.Run(background) })
	running.Go(func() { p.janitor(background) })
	running.Go(func() { p.audits(background) })
	running.Go(func() { p.hangups(background) })
	resumed, err := p.assembly.Broker.Resume(ctx)
	if err != nil {
		return failure(err, "The unfinished operations cannot be read: %v.", err)
	}
	return answer(resumed)
}

// serve answers until ctx ends, then stops in order.
func (p *process) serve(ctx context.Context, listener net.Listener, simulatorURL string, resumed int) error {
	served := make(chan error, 1)
	go func() { served <- p.server.Serve(p.connections.listen(listener)) }()
	p.announce("http://"+listener.Addr().String()+strings.TrimRight(p.options.BasePath, "/"), simulatorURL, resumed)
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
		return p.shutDown(ctx)
	}
}

func (p *process) announce(brokerURL, simulatorURL string, resumed int) {
	p.logger.Info("ferry listens", "url", brokerURL, "version", p.options.Version, "clients", len(p.assembly.Config.Clients), "resumed_operations", resumed)
	if p.options.Hint != nil && simulatorURL != "" && p.options.ConfigFile == "" {
		_, _ = fmt.Fprintf(p.options.Hint, "Try it: curl -u demo:demo -H 'X-Broker-API-Version: 2.17' %s/v2/catalog\n", brokerURL)
	}
	if p.options.Started != nil {
		p.options.Started(brokerURL, simulatorURL)
	}
}

// shutDown stops accepting and lets requests in flight end; those that are still held shortly before the grace is over
// are answered then.
func (p *process) shutDown(ctx context.Context) error {
	p.logger.Info("ferry stops")
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	release := time.AfterFunc(grace-2*time.Second, func() { close(p.stop) })
	defer release.Stop()
	if err := p.server.Shutdown(stop); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return failure(err, "The broker did not stop in order: %v.", err)
	}
	return nil
}

func (p *process) closeLoop(ctx context.Context) {
	soon, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	p.loop.Close(soon)
}

// janitor restarts operations whose driver got lost and forgets what has expired.
func (p *process) janitor(ctx context.Context) { p.eachMinute(ctx, p.tidy) }

// audits looks daily for what Cloud Foundry has and nobody knows. It is apart from the janitor: a Cloud Foundry that
// does not answer must not hold up recovery.
func (p *process) audits(ctx context.Context) {
	auditor := p.newAuditor()
	p.eachMinute(ctx, func(ctx context.Context) { _ = auditor.AuditDue(ctx, p.assembly.Clients()) }) // logged where it happens
}

func (p *process) newAuditor() *broker.Auditor {
	return broker.NewAuditor(broker.AuditorOptions{
		Audit: p.assembly.Broker.Audit, Store: p.store, Now: time.Now, Logger: p.logger, Ended: p.figures.Audit,
		After: firstAudit, Retry: auditRetry,
	})
}

func (p *process) eachMinute(ctx context.Context, do func(context.Context)) {
	minute := time.NewTicker(time.Minute)
	defer minute.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-minute.C:
			do(ctx)
		}
	}
}

func (p *process) tidy(ctx context.Context) {
	if err := p.restart(ctx); err != nil && ctx.Err() == nil {
		p.logger.Error("overdue operations were not restarted", "error", err.Error())
	}
	if _, err := p.store.Purge(ctx); err != nil && ctx.Err() == nil {
		p.logger.Error("expired records were not removed", "error", err.Error())
	}
}

func (p *process) restart(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, roundTime)
	defer cancel()
	round, err := p.assembly.Broker.Restart(ctx, restartWorkers)
	p.figures.Overdue("restarted", round.Restarted)
	p.figures.Overdue("failed", round.Failed)
	p.figures.Overdue("unreadable", round.Unreadable)
	p.figures.Overdue("left", round.Left)
	return err
}

// hangups says what a SIGHUP does not do, instead of ending the process as it would without anybody listening.
func (p *process) hangups(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.options.Hangups:
			p.logger.Info("SIGHUP is ignored: the configuration is read at the start only; to apply a change, stop ferry serve and start it again")
		}
	}
}
