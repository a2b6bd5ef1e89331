package lifecycle_test

import "math/rand/v2"

// chance decides what happens next in a schedule.
type chance interface {
	// pick returns a number from 0 to n-1.
	pick(n int) int
	// spent reports that there are no more choices to make.
	spent() bool
}

// seeded draws from a generator that gives the same numbers for the same seed.
type seeded struct{ r *rand.Rand }

func newSeeded(seed uint64) seeded {
	return seeded{rand.New(rand.NewPCG(seed, 2026))}
}

func (s seeded) pick(n int) int { return s.r.IntN(n) }
func (s seeded) spent() bool    { return false }

// scripted draws from bytes, one a choice, so that a fuzzer can write schedules.
type scripted struct{ bytes []byte }

func (s *scripted) pick(n int) int {
	if len(s.bytes) == 0 {
		return 0
	}
	b := int(s.bytes[0])
	s.bytes = s.bytes[1:]
	return b % n
}

func (s *scripted) spent() bool { return len(s.bytes) == 0 }

// recorder writes down what another chance picks, for scripted to repeat.
type recorder struct {
	chance
	bytes []byte
}

func (r *recorder) pick(n int) int {
	picked := r.chance.pick(n)
	r.bytes = append(r.bytes, byte(picked))
	return picked
}

// oneIn is true once in n times.
func oneIn(c chance, n int) bool { return c.pick(n) == n-1 }
