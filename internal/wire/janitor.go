package wire

import (
	"context"
	"time"
)

const (
	// restartWorkers is how many overdue operations are restarted at once.
	restartWorkers = 8
	// roundTime bounds a round of each minute, so that the next one is not late.
	roundTime  = 50 * time.Second
	auditEvery = 24 * time.Hour
)

// janitor restarts operations whose driver got lost, forgets what has expired, and
// looks daily for what Cloud Foundry has and nobody knows.
func (p *process) janitor(ctx context.Context) {
	minute, day := time.NewTicker(time.Minute), time.NewTicker(auditEvery)
	defer minute.Stop()
	defer day.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-minute.C:
			p.tidy(ctx)
		case <-day.C:
			p.audit(ctx)
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
	_, err := p.broker.Restart(ctx, restartWorkers)
	return err
}

// audit tries again tomorrow what Cloud Foundry did not tell today.
func (p *process) audit(ctx context.Context) {
	for _, c := range p.config.Clients {
		audited, err := p.broker.Audit(ctx, c.Name)
		if err != nil && ctx.Err() == nil {
			p.logger.Info("the audit was not completed", "client", c.Name, "error", err.Error())
		}
		p.logger.Info("audit", "client", c.Name, "seen", audited.Seen, "removed", audited.Removed, "unknown", audited.Unknown)
	}
}
