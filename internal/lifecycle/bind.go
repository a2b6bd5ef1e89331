package lifecycle

// tickBind drives a bind: the instance's record is read again after the claim by
// every tick, and the key is posted to the GUID for which the bind was accepted.
func tickBind(r Record, t Tick) Decision {
	if t.Instance == nil {
		return need(r, Effect{Do: ReadInstance})
	}
	if unbindable(r, *t.Instance) { // safeguard: instance read again after the claim
		if r.HasOpenCall(Create, t.ReadAt) && !Orphaned(r, *t.Instance) {
			return wait(r, t)
		}
		d := fail(r, t, instanceGone, "")
		if Orphaned(r, *t.Instance) || r.Operation.IDWasFree && r.Operation.Calls == 0 {
			d.Record.ExpiresAt = t.Now.Add(t.TombstoneTTL) // nobody has to unbind it: no attempt has left a key
		}
		return d
	}
	if r.InstanceGUID == "" {
		if t.Instance.CFGUID == "" {
			return wait(r, t)
		}
		r.InstanceGUID = t.Instance.CFGUID // written with the open call, never later
	}
	if firstCall(r) {
		return first(r, t)
	}
	if t.Look == nil {
		return need(r, Effect{Do: FindByName, GUID: r.InstanceGUID, GUIDs: r.KnownGUIDs()})
	}
	return judgeCreate(r, t)
}

// unbindable reports whether a key may not be made any more. Without a GUID there is
// nothing to bind to unless the create still runs: it failed, or was cancelled.
func unbindable(r Record, v InstanceView) bool {
	return Orphaned(r, v) || v.State == Deleting || v.CFGUID == "" && v.State != Creating
}

// tickUnbind drives an unbind (protocol.md 7).
func tickUnbind(r Record, t Tick) Decision {
	if r.InstanceGUID == "" {
		return gone(r, t) // no key was ever posted
	}
	if t.Instance == nil {
		return need(r, Effect{Do: ReadInstance})
	}
	if d, asked := jobFirst(r, t); asked {
		return d
	}
	if t.Look == nil {
		return need(r, Effect{Do: FindByName, GUID: r.InstanceGUID, GUIDs: r.KnownGUIDs()})
	}
	rows := owned(r, t.Look.Rows)
	switch {
	case len(rows.ours) > 0:
		return removeRows(r, t, rows.ours)
	case r.HasOpenCall(Create, t.ReadAt) && !Orphaned(r, *t.Instance): // safeguard: delete waits for open POSTs
		return wait(r, t)
	case rows.unknown > 0:
		return failSettled(r, t, unknownRow(r.Kind), "")
	default:
		return gone(r, t)
	}
}
