package server

import (
	"context"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
)

const (
	// restartWorkers is how many overdue operations are restarted at once.
	restartWorkers = 8
	// roundTime bounds a round of each minute, so that the next one is not late.
	roundTime = 50 * time.Second
	// firstAudit is how long after a start the first audit is due at the earliest: what
	// the start resumes comes before it. auditRetry is the pause after one that failed.
	firstAudit = 10 * time.Minute
	auditRetry = time.Hour
)

// janitor restarts operations whose driver got lost and forgets what has expired.
func (p *process) janitor(ctx context.Context) { p.eachMinute(ctx, p.tidy) }

// audits looks daily for what Cloud Foundry has and nobody knows. It is apart from the
// janitor: a Cloud Foundry that does not answer must not hold up recovery.
func (p *process) audits(ctx context.Context) {
	clients := make([]string, 0, len(p.config.Clients))
	for _, c := range p.config.Clients {
		clients = append(clients, c.Name)
	}
	auditor := p.newAuditor()
	p.eachMinute(ctx, func(ctx context.Context) { _ = auditor.AuditDue(ctx, clients) }) // logged where it happens
}

func (p *process) newAuditor() *broker.Auditor {
	return broker.NewAuditor(broker.AuditorOptions{
		Audit: p.broker.Audit, Store: p.store, Now: time.Now, Logger: p.logger, Ended: p.figures.Audit,
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
	round, err := p.broker.Restart(ctx, restartWorkers)
	p.figures.Overdue("restarted", round.Restarted)
	p.figures.Overdue("failed", round.Failed)
	p.figures.Overdue("unreadable", round.Unreadable)
	p.figures.Overdue("left", round.Left)
	return err
}

// hangups says what a SIGHUP does not do, instead of ending the process as it would
// without anybody listening.
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
