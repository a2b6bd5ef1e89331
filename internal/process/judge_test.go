package process

import (
	"context"
	"fmt"
	"slices"
)

// judge compares what platforms were told with what Cloud Foundry has.
func (w *world) judge(ctx context.Context, lives [][]*life, r *result) error {
	seen, err := readState(ctx, w.simulator)
	if err != nil {
		return err
	}
	keys := map[string][]string{}
	for _, i := range seen.Instances {
		if _, twice := keys[i.Name]; twice {
			return fmt.Errorf("two instances %s", i.Name)
		}
		keys[i.Name] = []string{}
		for _, k := range i.Keys {
			keys[i.Name] = append(keys[i.Name], k.Name)
		}
	}
	living := 0
	for _, l := range slices.Concat(lives...) {
		r.lives++
		if l.alive {
			living++
		}
		for _, check := range []func(context.Context, state, *life, *result) error{w.ended, w.once, w.onceEach} {
			if err := check(ctx, seen, l, r); err != nil {
				return fmt.Errorf("%s (%s): %w", l.id, l.planName, err)
			}
		}
		if err := l.leftovers(keys); err != nil {
			return fmt.Errorf("%s (%s): %w", l.id, l.planName, err)
		}
	}
	if len(seen.Instances) != living {
		return fmt.Errorf("%d instances in Cloud Foundry, want %d", len(seen.Instances), living)
	}
	return nil
}

// ended asks for every operation again: each has ended and is still known.
func (w *world) ended(ctx context.Context, _ state, l *life, r *result) error {
	for operation, path := range l.operations {
		if _, err := l.end(ctx, path, operation); err != nil {
			return err
		}
		r.operations++
	}
	return nil
}

// once holds the provisions against the incarnations. One that was given up may
// have been deleted before anything was sent for it.
func (w *world) once(_ context.Context, seen state, l *life, r *result) error {
	least, most := l.created, l.created+l.cancelled
	late := w.strait.lateCalls(l.id)
	got := seen.count(l.id, "", "provision")
	switch {
	case late == 0:
		r.exact++
	case got > most:
		r.twice++
		fallthrough
	default:
		r.loose++
	}
	if got < least || got > most+late {
		return fmt.Errorf("provisioned %d times; %d incarnations, %d given up, %d late POSTs", got, l.created, l.cancelled, late)
	}
	if !l.alive && got > 0 {
		deprovisions := seen.count(l.id, "", "deprovision")
		if deprovisions < got || deprovisions > got+l.unsettled {
			return fmt.Errorf("provisioned %d times, deprovisioned %d times, with %d kills meanwhile", got, deprovisions, l.unsettled)
		}
		r.deprovisions += deprovisions - got
	}
	if u := seen.count(l.id, "", "update"); u < l.updates["least"] || u > l.updates["most"] {
		return fmt.Errorf("updated %d times, want %d to %d", u, l.updates["least"], l.updates["most"])
	}
	return nil
}

// onceEach holds the same for bindings.
func (w *world) onceEach(_ context.Context, seen state, l *life, r *result) error {
	for _, c := range seen.Calls {
		if c.Instance != l.id || c.Operation != "bind" {
			continue
		}
		r.binds++
		if most := 1 + w.strait.lateCalls(c.Binding); c.Count > most {
			return fmt.Errorf("binding %s was made %d times, want %d at most", c.Binding, c.Count, most)
		}
	}
	return nil
}

// leftovers compares the keys that are there with those that are to be there.
func (l *life) leftovers(keys map[string][]string) error {
	got, there := keys[l.id]
	if there != l.alive {
		return fmt.Errorf("there: %t, want %t", there, l.alive)
	}
	want := []string{}
	for id, bound := range l.bindings {
		if bound {
			want = append(want, id)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if l.alive && !slices.Equal(got, want) {
		return fmt.Errorf("keys %v, want %v", got, want)
	}
	return nil
}
