package lifecycle

// Progress is what a record says of an operation.
type Progress struct {
	// Known is false when the record knows of nothing to report.
	Known bool
	// Running, or else the result.
	Running bool
	Result  Finished
}

// Poll answers for the operation with this id, or for the latest one when the id
// is empty or unknown (osb-choices B3, B9). instance is needed for bindings.
func Poll(r Record, id string, instance InstanceView) Progress {
	effective := EffectiveState(r, instance)
	if r.Running(id) && effective == r.State {
		return Progress{Known: true, Running: true}
	}
	if f, ok := r.Result(id); ok {
		return Progress{Known: true, Result: f}
	}
	return latest(r, effective, id)
}

func latest(r Record, effective State, id string) Progress {
	switch {
	case effective == Absent, effective == Ghost:
		return Progress{}
	case effective == Gone && r.State.Busy():
		return Progress{Known: true, Result: orphanResult(r)}
	case effective == Gone:
		return Progress{Known: true, Result: Finished{Verb: Delete, Succeeded: true}}
	case effective.Busy():
		return Progress{Known: true, Running: true}
	case len(r.Finished) > 0:
		return Progress{Known: true, Result: r.Finished[len(r.Finished)-1]}
	default:
		return Progress{Known: true, Result: Finished{Verb: Create, Succeeded: true}}
	}
}
