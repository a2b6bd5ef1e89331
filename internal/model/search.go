package main

// outcome is what a search has found.
type outcome struct {
	States, Steps int
	// Complete is whether every reachable state was visited.
	Complete bool
	// Found are the properties that do not hold, each with a shortest trace.
	Found map[property][]traceStep
}

// traceStep is one step of a trace, with the state after it.
type traceStep struct {
	label
	after state
}

// search visits every reachable state, nearest first, up to a number of states. It stops at the first violation if it
// is told to. What it does depends on its arguments alone.
func (m *model) search(most int, stopAtFirst bool) outcome {
	seen, fair := newTable(), newFairRuns(m)
	first := m.initial()
	seen.add(&first, 0)
	res := outcome{Found: map[property][]traceStep{}, Complete: true}
	for i := uint32(0); int(i) < seen.size; i++ {
		s := seen.at(i)
		bad := s.Bad
		if bad == 0 {
			bad = fair.from(s)
		}
		if bad != 0 && res.Found[bad] == nil {
			res.Found[bad] = m.trace(seen, i)
			if stopAtFirst {
				res.Complete = false
				break
			}
		}
		if s.Bad != 0 {
			continue // what follows a violation is not looked at
		}
		m.next(&s, func(n state, _ label) {
			res.Steps++
			m.canon(&n)
			seen.add(&n, i)
		})
		if seen.size > most {
			res.Complete = false
			break
		}
	}
	res.States = seen.size
	return res
}

// trace returns the steps to a state. It plays them again, since only the states are kept.
func (m *model) trace(seen *table, last uint32) []traceStep {
	var path []uint32
	for i := last; i != 0; i = seen.parent(i) {
		path = append(path, i)
	}
	steps := []traceStep{}
	s := seen.at(0)
	for k := len(path) - 1; k >= 0; k-- {
		after, taken := seen.at(path[k]), false
		m.next(&s, func(n state, l label) {
			m.canon(&n)
			if n == after && !taken {
				steps = append(steps, traceStep{l, after})
				taken = true
			}
		})
		s = after
	}
	return steps
}
