package lambda

import (
	"context"
	"sync"
	"time"
)

// initTime bounds what is read before the first event: Lambda gives an environment ten
// seconds to start in, and begins anew when they are over.
const initTime = 5 * time.Second

// build is what the binary was made of, as git describes it; the Makefile sets it.
var build = "dev"

// announce says once in an environment's life what runs in it.
func (c *core) announce(ctx context.Context) {
	c.logger.InfoContext(ctx, "the function starts", "version", c.version, "build", build)
}

// prepare reads, while the environment starts and has a whole CPU, what its first event
// would wait for: the secret, and beside it the way to the table; then the clients'
// stored catalogs, if they are wanted, all at once. It has ended when it returns.
// Trouble is logged where it happens and is no fault: the first event tries again.
//
// It returns what is made of the configuration, nil when there is none.
func (c *core) prepare(ctx context.Context, catalogs bool) *assembly {
	ctx, cancel := context.WithTimeout(ctx, initTime)
	defer cancel()
	var reads sync.WaitGroup
	defer reads.Wait()
	reads.Go(func() { _ = c.store.Ping(ctx) })
	now, err := c.current(ctx)
	if err != nil {
		return nil
	}
	if !catalogs {
		return now
	}
	reads.Wait() // the connection is there, and of use to the first of them
	for _, client := range now.config.Clients {
		reads.Go(func() { _ = now.catalog.Load(ctx, client.Name) })
	}
	return now
}

// prepare is what the API does before its first event. An environment may be kept warm
// for hours before that comes: the catalogs are as old by then as they are in memory.
func (a *API) prepare(ctx context.Context) {
	a.core.announce(ctx)
	if now := a.core.prepare(ctx, true); now != nil {
		a.adopt(now)
	}
}

// prepare is what the poller does before its first event.
func (p *Poller) prepare(ctx context.Context) {
	p.core.announce(ctx)
	p.core.prepare(ctx, true)
}

// prepare is what the janitor does before its first event. It fetches catalogs, and
// needs none that was stored.
func (j *Janitor) prepare(ctx context.Context) {
	j.core.announce(ctx)
	j.core.prepare(ctx, false)
}
