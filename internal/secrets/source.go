// Package secrets reads the configuration from AWS Secrets Manager: the same YAML that `ferry serve` reads from a file.
//
// A function lives for hours, and passwords are changed meanwhile: the text is read again when it has reached an age,
// without a restart. What cannot be read, or is no configuration, replaces nothing: the last good copy stays in use,
// and the log says so.
package secrets

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"

	"github.com/ferry-broker/ferry/internal/config"
)

// Options are what a Source is made of.
type Options struct {
	// Config has region, credentials, HTTP client and, for a stand-in, the address. A Retryer in it is not used.
	Config aws.Config
	// Secret is the secret's ARN or name. Required.
	Secret string
	// MaxAge is how old a copy may grow before it is read again; 0 means a minute.
	MaxAge time.Duration
	// Timeout bounds one reading with its retries; 0 means 3 seconds.
	Timeout time.Duration
	// LookupEnv and ReadFile resolve references in the text, as config.Parse does. Required.
	LookupEnv func(string) (string, bool)
	ReadFile  func(string) ([]byte, error)
	// Now is the clock of ages. Required.
	Now func() time.Time
	// Logger may be nil.
	Logger *slog.Logger
}

// pause is how long a reading that failed lets the next one wait.
const pause = 10 * time.Second

// Copy is a configuration with the version of the secret that it was read from.
type Copy struct {
	Config  config.Config
	Version string
}

// Source keeps the configuration. It may be used concurrently.
type Source struct {
	options Options
	client  *secretsmanager.Client
	reading sync.Mutex
	kept    atomic.Pointer[kept]
}

// kept is a good copy and when to look for another one.
type kept struct {
	Copy
	until time.Time
}

// New returns a Source that has read nothing yet.
func New(o Options) *Source {
	if o.MaxAge <= 0 {
		o.MaxAge = time.Minute
	}
	if o.Timeout <= 0 {
		o.Timeout = 3 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	client := secretsmanager.NewFromConfig(o.Config, func(c *secretsmanager.Options) {
		c.Retryer = retry.NewStandard(func(r *retry.StandardOptions) { r.MaxAttempts, r.MaxBackoff = 3, 500*time.Millisecond })
	})
	return &Source{options: o, client: client}
}

// Current returns the configuration in force. It calls Secrets Manager when there is no copy yet or the copy has
// reached its age, one caller at a time: who comes meanwhile gets the old copy, or waits when there is none. The error,
// of the SDK or a *config.Faults (errors.As), means that there never was a good copy.
func (s *Source) Current(ctx context.Context) (Copy, error) {
	old := s.kept.Load()
	if old != nil && s.options.Now().Before(old.until) {
		return old.Copy, nil
	}
	if old == nil {
		s.reading.Lock()
	} else if !s.reading.TryLock() {
		return old.Copy, nil
	}
	defer s.reading.Unlock()
	if now := s.kept.Load(); now != old {
		return now.Copy, nil // somebody else was quicker
	}
	return s.renew(ctx, old)
}

// renew is called with the lock held.
func (s *Source) renew(ctx context.Context, old *kept) (Copy, error) {
	next, err := s.read(ctx, old)
	if err == nil {
		s.kept.Store(&kept{Copy: next, until: s.options.Now().Add(s.options.MaxAge)})
		return next, nil
	}
	s.options.Logger.WarnContext(ctx, "the configuration was not read", "in_use", versionOf(old), "error", err.Error())
	if old == nil {
		return Copy{}, err
	}
	s.kept.Store(&kept{Copy: old.Copy, until: s.options.Now().Add(min(pause, s.options.MaxAge))})
	return old.Copy, nil
}

func versionOf(k *kept) string {
	if k == nil {
		return "none"
	}
	return k.Version
}

// read returns the secret's current text as a configuration. A version that is in use already is not parsed again.
func (s *Source) read(ctx context.Context, old *kept) (Copy, error) {
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	out, err := s.client.GetSecretValue(ctx, &secretsmanager.GetSecretValueInput{SecretId: new(s.options.Secret)})
	if err != nil {
		return Copy{}, fmt.Errorf("read the secret %s: %w", s.options.Secret, err)
	}
	version := ""
	if out.VersionId != nil {
		version = *out.VersionId
	}
	if old != nil && version != "" && version == old.Version {
		return old.Copy, nil
	}
	text := out.SecretBinary
	if out.SecretString != nil {
		text = []byte(*out.SecretString)
	}
	c, err := config.Parse("secret", text, s.options.LookupEnv, s.options.ReadFile)
	if err != nil {
		return Copy{}, fmt.Errorf("version %s of the secret %s: %w", version, s.options.Secret, err)
	}
	s.options.Logger.InfoContext(ctx, "the configuration is read", "version", version, "clients", len(c.Clients), "warnings", c.Warnings())
	return Copy{Config: c, Version: version}, nil
}
