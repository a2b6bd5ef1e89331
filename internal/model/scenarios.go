package main

import "slices"

// from returns a variant of a scenario.
func from(sc scenario, name, covers string, change func(sc *scenario)) scenario {
	sc.Name, sc.Covers, sc.Brief = name, covers, nil
	sc.Script = slices.Clone(sc.Script)
	change(&sc)
	return sc
}

// A reduction makes a world smaller.
type reduction func(*scenario)

func noLate(sc *scenario)    { sc.Faults.Late = 0 }
func noFailure(sc *scenario) { sc.Faults.Fail = 0 }
func noRefusal(sc *scenario) { sc.Faults.DeleteFail = 0 }

// phases keeps the first phases of the script.
func phases(n int) reduction { return func(sc *scenario) { sc.Script = sc.Script[:n] } }

func brief(all ...reduction) reduction {
	return func(sc *scenario) {
		for _, reduce := range all {
			reduce(sc)
		}
	}
}

// scenarios are all that there are.
func scenarios() []scenario {
	return slices.Concat(ofInstances(), ofUpdates(), ofBindings(), ofGUIDs(), ofStores(), ofLists())
}

// life is an instance's: created, deleted at any time, created again with another plan, deleted.
func life() scenario {
	return scenario{Name: "life", Covers: "2.2, 2.3, 2.4, 3, 4, 6, 8",
		Script: []phase{{Kind: createKind}, {Kind: deleteKind}, {createKind, 1, deleted}, {Kind: deleteKind}},
		Faults: budget{Late: 1, Fail: 1}, MaxOps: 4, Brief: phases(3)}
}

func ofInstances() []scenario {
	noFailureOf := func(n int) reduction { return brief(noFailure, phases(n)) }
	return []scenario{
		life(),
		from(life(), "faults", "4, 6, 9", func(sc *scenario) { // refused deletes, a failure that is not final, a deadline
			sc.Script = []phase{{Kind: createKind}, {Kind: deleteKind}, {createKind, 0, deleted}}
			sc.Faults = budget{Late: 1, Fail: 1, CleanUp: 1, DeleteFail: 1, Deadline: 1}
			sc.Brief = brief(noLate, noFailure, func(sc *scenario) { sc.Faults.Deadline = 0 })
		}),
		from(life(), "refused", "4", func(sc *scenario) { sc.Faults.Refuse, sc.Brief = 1, noFailureOf(3) }),
		from(life(), "vanish", "4", func(sc *scenario) { sc.Vanished, sc.Faults.Vanish, sc.Brief = true, 1, noFailureOf(3) }),
		from(life(), "foreign", "1, 4, 6", func(sc *scenario) { sc.Faults.Foreign, sc.Brief = 1, noFailureOf(3) }),
		from(life(), "spaces", "3.2, 4", func(sc *scenario) { // a row is left in the first space
			sc.Script = []phase{{createKind, 1, anyTime}, {Kind: deleteKind}, {createKind, 0, deleted}, {Kind: deleteKind}}
			sc.TwoSpaces, sc.Leftover, sc.MaxOps, sc.Brief = true, true, 6, noFailure
		}),
		from(life(), "ttl", "8", func(sc *scenario) { sc.Faults.Expire, sc.Brief = 1, noFailureOf(3) }),
		from(life(), "told", "2.4", func(sc *scenario) { sc.Faults.LateGone, sc.Brief = 1, noFailureOf(3) }),
		from(life(), "inline", "3.7, 3.8", func(sc *scenario) {
			sc.Inline, sc.OpenFirst, sc.Tickers, sc.Brief = true, true, 3, noFailureOf(3)
			sc.NoLook = foundAbsent | foundGone | foundGoneOpen
		}),
		from(life(), "laterthanH", "8, 9", func(sc *scenario) { // calls outlive their entries, the audit repairs
			sc.Audit, sc.Without, sc.Brief = true, []string{"CallsEndInTime", "SendersEndInTime"}, noFailureOf(2)
		}),
		from(life(), "ttllater", "8, 9", func(sc *scenario) { // a tombstone expires, and calls outlive their entries
			sc.Audit, sc.Without, sc.Brief = true, []string{"CallsEndInTime", "SendersEndInTime"}, noFailureOf(2)
			sc.Faults.Expire = 1
		}),
		from(life(), "taken", "4", func(sc *scenario) { sc.Faults.Hide, sc.Brief = 2, noFailureOf(2) }),
		from(life(), "claimfirst", "2.1, 2.3", func(sc *scenario) {
			sc.ClaimFirst, sc.Faults, sc.Brief = true, budget{Late: 1, LateClaim: 1}, brief(noLate, phases(3))
		}),
	}
}

func ofUpdates() []scenario {
	update := scenario{Name: "update", Covers: "5", StartReady: true,
		Script: []phase{{updateKind, 1, anyTime}, {updateKind, 2, whenReady}, {Kind: deleteKind}},
		Faults: budget{Late: 1, Fail: 1}, MaxOps: 5, Brief: phases(2)}
	plan := from(update, "plan", "9", func(sc *scenario) { // also behind deletes that fail, and deadlines
		sc.Script = []phase{{updateKind, 1, anyTime}, {Kind: deleteKind}, {updateKind, 2, anyTime}, {Kind: deleteKind}}
		sc.Faults, sc.Plans, sc.Brief = budget{Late: 1, Fail: 1, DeleteFail: 1}, true, phases(2)
	})
	return []scenario{
		update,
		from(update, "refpatch", "5.3, 5.4", func(sc *scenario) { sc.Faults.Refuse, sc.RefusePatch, sc.Brief = 1, true, phases(1) }),
		from(update, "updcode", "5.3, 5.7", func(sc *scenario) { sc.PatchJobs, sc.Brief = true, phases(1) }),
		from(update, "updcoderef", "5.3, 5.4, 5.7", func(sc *scenario) {
			sc.PatchJobs, sc.RefusePatch, sc.Faults, sc.Brief = true, true, budget{Late: 1, Refuse: 1}, phases(1)
		}),
		plan,
		from(plan, "planfaults", "9", func(sc *scenario) { sc.Faults.Deadline, sc.Brief = 1, brief(noLate, phases(2)) }),
	}
}

func ofBindings() []scenario {
	bind := scenario{Name: "bind", Covers: "7", StartReady: true,
		Script: []phase{{Kind: bindKind}, {Kind: unbindKind}, {bindKind, 1, deleted}},
		Faults: budget{Late: 1, Fail: 1, DeleteFail: 1}, MaxOps: 5, Brief: brief(noLate, noRefusal)}
	bindLife := from(bind, "bindlife", "6, 7", func(sc *scenario) {
		sc.Script = []phase{{Kind: bindKind}, {Kind: deleteKind}, {createKind, 1, deleted}, {bindKind, 1, whenReady}}
		sc.Faults, sc.MaxOps, sc.Brief = budget{Late: 1}, 6, noLate
	})
	early := from(bind, "early", "7", func(sc *scenario) { // bound while the instance is created
		sc.StartReady, sc.Early = false, true
		sc.Script = []phase{{Kind: createKind}, {Kind: bindKind}, {Kind: unbindKind}, {Kind: deleteKind}}
		sc.Faults, sc.Brief = budget{Late: 1, Fail: 1}, brief(noLate, noFailure, phases(3))
	})
	rotate := from(bindLife, "rotate", "7", func(sc *scenario) { sc.Rotate, sc.Brief = true, brief(noLate, phases(3)) })
	return []scenario{
		bind,
		bindLife,
		from(bindLife, "mix", "6, 7", func(sc *scenario) { // all at once
			sc.Script = []phase{{Kind: bindKind}, {updateKind, 1, anyTime}, {Kind: unbindKind}, {Kind: deleteKind}}
			sc.MaxOps, sc.Brief = 5, brief(noLate, phases(2))
		}),
		from(bind, "refusedbind", "7", func(sc *scenario) {
			sc.Faults, sc.Brief = budget{Late: 1, Fail: 1, Refuse: 1}, brief(noFailure, phases(2))
		}),
		from(bind, "stranger", "6", func(sc *scenario) { // a stranger's keys, unbinds in the background
			sc.Script = []phase{{Kind: bindKind}, {Kind: unbindKind}, {Kind: deleteKind}}
			sc.Async, sc.Faults = true, budget{Late: 1, DeleteFail: 1, ForeignKeys: 2}
			sc.Brief = brief(noLate, noRefusal)
		}),
		from(bind, "failedunbind", "6", func(sc *scenario) { // the instance is deleted after its unbind failed
			sc.Script = []phase{{Kind: bindKind}, {Kind: unbindKind}, {Kind: deleteKind}}
			sc.Faults, sc.Brief = budget{Late: 1, DeleteFail: 1}, noLate
		}),
		from(bind, "korifi", "7", func(sc *scenario) {
			sc.NamedKeys, sc.NoFailedJobs, sc.Faults, sc.Brief = true, true, budget{Late: 1, Fail: 1, Deadline: 1}, brief(noLate, phases(2))
		}),
		early,
		from(early, "earlyagain", "7", func(sc *scenario) {
			sc.Script[3], sc.Brief = phase{bindKind, 1, deleted}, brief(noLate, noFailure, phases(3))
		}),
		from(early, "earlylife", "7", func(sc *scenario) {
			sc.Script = []phase{{Kind: createKind}, {Kind: bindKind}, {Kind: deleteKind}, {createKind, 1, deleted}, {bindKind, 1, anyTime}}
			sc.Faults, sc.MaxOps, sc.Brief = budget{Late: 1}, 6, brief(noLate, phases(3))
		}),
		from(bind, "held", "4, 7", func(sc *scenario) {
			sc.Held, sc.Faults.Refuse, sc.Brief = true, 1, brief(noLate, noRefusal, phases(2))
		}),
		from(bind, "heldr9", "4, 7", func(sc *scenario) {
			sc.Held, sc.CleanUpKeys, sc.Faults = true, true, budget{Late: 1, Fail: 1, CleanUp: 1, Refuse: 1}
			sc.Brief = brief(noLate, noFailure, phases(2))
		}),
		rotate,
		from(rotate, "rotagain", "7", func(sc *scenario) { sc.RotateAgain, sc.Brief = true, brief(noLate, phases(3)) }),
	}
}

func ofGUIDs() []scenario {
	rename := from(life(), "rename", "1, 3.2, 4, 6", func(sc *scenario) {
		sc.GUIDs, sc.Vanished, sc.RenameKnown, sc.Faults.Rename, sc.Brief = true, true, true, 1, brief(noLate, noFailure, phases(2))
	})
	return []scenario{
		rename,
		from(rename, "renamefaults", "4, 6", func(sc *scenario) {
			sc.Script = []phase{{Kind: createKind}, {Kind: deleteKind}, {createKind, 0, deleted}}
			sc.Faults = budget{Fail: 1, DeleteFail: 1, Deadline: 1, Rename: 1}
			sc.Brief = brief(noFailure, phases(2))
		}),
		from(rename, "renameforeign", "1, 4", func(sc *scenario) {
			sc.Faults, sc.Brief = budget{Fail: 1, Foreign: 1, Rename: 2}, brief(noFailure, phases(2))
		}),
		from(rename, "renamefree", "9", func(sc *scenario) {
			sc.RenameKnown, sc.Audit, sc.Brief = false, true, brief(noLate, noFailure, phases(2))
		}),
		from(rename, "renamemark", "3.2", func(sc *scenario) {
			sc.RenameKnown, sc.LookByMark, sc.Brief = false, true, brief(noLate, noFailure, phases(2))
		}),
		from(rename, "renameupdate", "5", func(sc *scenario) {
			sc.StartReady, sc.Vanished = true, false
			sc.Script = []phase{{updateKind, 1, anyTime}, {updateKind, 2, whenReady}, {Kind: deleteKind}}
			sc.Faults.Rename, sc.MaxOps, sc.Brief = 2, 5, brief(noFailure, phases(2))
		}),
		from(rename, "renameearly", "7", func(sc *scenario) {
			sc.Early, sc.Vanished = true, false
			sc.Script = []phase{{Kind: createKind}, {Kind: bindKind}, {Kind: unbindKind}, {Kind: deleteKind}}
			sc.Faults, sc.MaxOps, sc.Brief = budget{Fail: 1, Rename: 1}, 5, brief(noFailure, phases(2))
		}),
	}
}

func ofStores() []scenario {
	restored := from(life(), "restored", "1, 4, 6", func(sc *scenario) {
		sc.Script = []phase{{Kind: createKind}, {Kind: deleteKind}, {createKind, 0, deleted}, {createKind, 0, whenReady}, {Kind: deleteKind}}
		sc.Restore, sc.Faults, sc.MaxOps, sc.Brief = true, budget{Late: 1}, 6, brief(noLate, phases(3))
	})
	return []scenario{
		restored,
		from(restored, "restoredaudit", "9", func(sc *scenario) { sc.Audit, sc.Brief = true, brief(noLate, phases(3)) }),
		from(restored, "restoredlife", "9", func(sc *scenario) {
			sc.Script = []phase{{Kind: createKind}, {Kind: deleteKind}, {createKind, 0, deleted}, {Kind: deleteKind}}
			sc.LastLook, sc.Faults.Deadline, sc.Tickers, sc.Brief = true, 1, 1, brief(noLate, phases(2))
		}),
	}
}

// ofLists are about two ids and one list. The second instance is ready, and asked to be deleted, unless a scenario says
// that both have their whole life.
func ofLists() []scenario {
	roundAlone := func(sc *scenario) { sc.TwoIDs = 3 }
	twoIDs := from(life(), "twoids", "3.9", func(sc *scenario) { // a round, and executions that look up alone
		sc.Script = []phase{{Kind: createKind}, {Kind: deleteKind}}
		sc.TwoIDs, sc.SecondHalf, sc.Faults, sc.Brief = 1, true, budget{Late: 1}, roundAlone
	})
	pages := from(twoIDs, "pages", "3.2, 3.9", func(sc *scenario) { // several pages, one confirmation, a role that is lost
		sc.Pages, sc.Faults, sc.Brief = true, budget{Blind: 1}, roundAlone
	})
	return []scenario{
		twoIDs,
		from(twoIDs, "twoidslate", "3.9", func(sc *scenario) { sc.OldLists, sc.Brief = true, brief(roundAlone, noLate) }),
		from(twoIDs, "tworounds", "3.9", func(sc *scenario) {
			sc.TwoIDs, sc.Brief = 2, brief(noLate, func(sc *scenario) { sc.MaxOps = 3 })
		}),
		pages,
		from(pages, "pagestworounds", "3.2, 3.9", func(sc *scenario) {
			sc.TwoIDs, sc.Faults, sc.Brief = 2, budget{}, func(sc *scenario) { sc.MaxOps = 3 }
		}),
		from(pages, "pagesboth", "3.2, 3.9", func(sc *scenario) { // both with their whole life, a round alone
			sc.TwoIDs, sc.SecondHalf, sc.Faults, sc.Brief = 3, false, budget{Blind: 1}, func(sc *scenario) { sc.Faults.Blind = 0 }
		}),
	}
}
