package ccapi

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"
)

// pause keeps all calls of a client from repeating what one of them has just found out. While it lasts they fail at
// once, unsent; after it one call passes as a probe, and the others wait for as long again, or until that one
// succeeded. The zero value is no pause.
type pause struct {
	mu       sync.Mutex
	trouble  trouble // that holds calls back now
	cause    *Error
	last     trouble // of the failures in a row, of which there are so many
	failures int
	until    time.Time
}

// admit returns nil, or the error with which a call fails that is not to be made now.
func (p *pause) admit(what string, now time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.trouble == noTrouble {
		return nil
	}
	if left := p.until.Sub(now); left > 0 {
		return p.held(what, left)
	}
	if p.trouble == limited { // the time is over, and nobody said that anything is wrong
		p.trouble = noTrouble
		return nil
	}
	p.until = now.Add(paces[p.trouble].length(p.failures)) // this call is the probe
	return nil
}

// held is the error of a call that was kept back.
func (p *pause) held(what string, left time.Duration) *Error {
	e := *p.cause
	e.Call, e.RequestID, e.RetryAfter, e.Unsent = what, "", left, true
	e.Held = "not sent, since the last answer was:"
	if e.Err != nil {
		e.Err = errors.New(e.Err.Error()) // it is not this call's context that ended
	}
	return &e
}

// failed counts a failure and begins or prolongs the pause.
func (p *pause) failed(t trouble, cause *Error, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.trouble == limited && now.Before(p.until) && t == away {
		return // the limiter's word says more
	}
	if p.last != t {
		p.last, p.failures = t, 0
	}
	if p.failures++; p.failures <= paces[t].after {
		return
	}
	wait := paces[t].length(p.failures)
	if t == limited && cause.RetryAfter > 0 {
		wait = cause.RetryAfter
	}
	kept := *cause // the caller goes on with its own, and may mark it
	p.trouble, p.cause, p.until = t, &kept, now.Add(wait)
}

// succeeded ends the pause. A limiter's has its time: what was under way when it began says nothing about the next
// call.
func (p *pause) succeeded(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failures = 0
	if p.trouble != limited || !now.Before(p.until) {
		p.trouble, p.cause = noTrouble, nil
	}
}

// settle tells the pause how a call ended; judge says what a failure means.
func (p *pause) settle(err error, took time.Duration, now time.Time, judge func(*Error, time.Duration) (trouble, bool)) {
	e, ok := errors.AsType[*Error](err)
	if err == nil || !ok {
		p.succeeded(now)
		return
	}
	switch t, known := judge(e, took); {
	case !known:
	case t == noTrouble:
		p.succeeded(now)
	default:
		p.failed(t, e, now)
	}
}

// trouble is why a client's calls are held back.
type trouble int

const (
	noTrouble trouble = iota
	refused           // the login: a UAA locks accounts that go on trying
	rejected          // its token, by Cloud Foundry, also when it is fresh
	limited           // Cloud Foundry asked to stay away
	away              // nobody answered, or something in front of Cloud Foundry did
)

// pace is how a pause grows with the number of failures in a row.
type pace struct {
	// after is how many failures in a row are no trouble yet: single calls are cut off, and tokens withdrawn, on
	// healthy days.
	after       int
	first, most time.Duration
	factor      int
}

// paces say how long calls stay away. A Cloud Foundry that is away is back at some moment, which has to be noticed
// soon; a login stays refused until somebody cares.
var paces = map[trouble]pace{
	refused:  {first: 5 * time.Second, most: 5 * time.Minute, factor: 3},
	rejected: {after: 9, first: 5 * time.Second, most: 5 * time.Minute, factor: 3},
	limited:  {first: time.Second, most: 30 * time.Second, factor: 2},
	away:     {after: 2, first: 500 * time.Millisecond, most: 2 * time.Second, factor: 2},
}

// length of the pause after so many failures in a row.
func (p pace) length(failures int) time.Duration {
	d := p.first
	for range failures - p.after - 1 {
		d = min(p.most, d*time.Duration(p.factor))
	}
	return d
}

// slow is how long a call must have lasted before running out of its own time tells something about Cloud Foundry.
const slow = 5 * time.Second

// troubleOf says what a failed call tells of the calls to come; known is false when it tells nothing, as when its
// caller left.
func troubleOf(e *Error, took time.Duration) (t trouble, known bool) {
	switch {
	case errors.Is(e, context.Canceled), errors.Is(e, context.DeadlineExceeded) && took < slow:
		return noTrouble, false
	case e.Status == http.StatusTooManyRequests:
		// These two limit one kind of call, and not the client.
		if e.Code == CodeBrokerLimited || e.Code == CodeUAALimited {
			return noTrouble, true
		}
		return limited, true
	case Unreachable(e):
		return away, true
	}
	return noTrouble, true
}

// loginTrouble is troubleOf for a login. A UAA that cannot serve is away; what else it says is about the login.
func loginTrouble(e *Error, took time.Duration) (t trouble, known bool) {
	switch {
	case e.Advice != "":
		return refused, true
	case e.Status >= http.StatusInternalServerError:
		return away, true
	}
	return troubleOf(e, took)
}
