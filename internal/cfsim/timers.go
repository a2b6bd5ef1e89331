package cfsim

import "time"

// later runs step after d, holding s.mu, unless the simulator was closed or
// reset in between. The caller holds s.mu.
func (s *Simulator) later(d time.Duration, step func()) {
	if s.closed {
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(d, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		// A stopped timer may have fired already and have waited for the lock.
		if _, live := s.timers[timer]; !live {
			return
		}
		delete(s.timers, timer)
		step()
	})
	s.timers[timer] = struct{}{}
}

// cancelTimers makes sure that no step given to later runs any more. The
// caller holds s.mu.
func (s *Simulator) cancelTimers() {
	for timer := range s.timers {
		timer.Stop()
	}
	clear(s.timers)
	s.waiting, s.overdue = nil, 0
}
