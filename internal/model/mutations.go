package main

import (
	"fmt"
	"strings"
)

// mutation takes safeguards away in a scenario: something has to break.
type mutation struct {
	without  []string
	scenario string
	large    bool // the small world of the tests is too small for it
}

func (mu mutation) String() string { return strings.Join(mu.without, " and ") + " in " + mu.scenario }

// world is the scenario that is searched.
func (mu mutation) world() (scenario, error) {
	sc, err := named(mu.scenario)
	if !mu.large && sc.Brief != nil {
		sc.Brief(&sc)
	}
	return sc, err
}

var mutations = []mutation{
	{[]string{"ClaimOnRevision"}, "life", false},
	{[]string{"ClaimOnFirstRead"}, "life", false},
	{[]string{"GoneMovesLife"}, "life", false},
	{[]string{"GoneOnRevision"}, "told", false},
	{[]string{"KeepOpenCalls"}, "life", false},
	{[]string{"RepeatOnlyWhereAbsent"}, "claimfirst", false},
	{[]string{"PostOnRevision"}, "life", false},
	{[]string{"PatchOnRevision"}, "update", false},
	{[]string{"DeleteOnRevision", "SpareNewer"}, "life", false},
	{[]string{"RecordOpenCalls"}, "life", false},
	{[]string{"ReportOnRevision"}, "life", false},
	{[]string{"JudgeBeforeLook"}, "life", false},
	{[]string{"GoneWaits"}, "life", false},
	{[]string{"FailedWaits"}, "life", false},
	{[]string{"FailedWaits"}, "refused", false},
	{[]string{"FailedWaits"}, "vanish", false},
	{[]string{"FailedWaits"}, "update", false},
	{[]string{"CallsEndInTime"}, "life", false},
	{[]string{"SendersEndInTime"}, "life", false},
	{[]string{"AdoptOnlyOwn"}, "faults", true},
	{[]string{"DeleteWhatWasSeen"}, "life", false},
	{[]string{"LookByName"}, "life", false},
	{[]string{"LookInWholeOrg"}, "spaces", false},
	{[]string{"SpareUnmarked"}, "foreign", false},
	{[]string{"FailureIsFinal"}, "faults", false},
	{[]string{"OldFailureIsOld"}, "korifi", false},
	{[]string{"OwnDeleteFailed"}, "faults", false},
	{[]string{"WaitForOthersCalls"}, "update", false},
	{[]string{"CountPatches"}, "refpatch", false},
	{[]string{"CountPatches"}, "updcode", false},
	{[]string{"CountPatches"}, "updcoderef", false},
	{[]string{"BindingOfIncarnation"}, "bindlife", false},
	{[]string{"ReadInstanceAgain"}, "bindlife", false},
	{[]string{"BindingsFirst"}, "bindlife", false},
	{[]string{"FailedUnbindWaits"}, "failedunbind", false},
	{[]string{"GUIDBeforePost"}, "early", false},
	{[]string{"GUIDOfSameIncarnation"}, "earlylife", true},
	{[]string{"OwnRecordFirst"}, "early", true},
	{[]string{"NeverAdoptRemoved"}, "heldr9", false},
	{[]string{"OneKey"}, "korifi", false},
	{[]string{"SamePredecessorLife"}, "rotate", false},
	{[]string{"ParametersAgain"}, "rotagain", false},
	{[]string{"OutliveRequests"}, "ttl", false},
	{[]string{"OutliveCalls"}, "ttllater", false},
	{[]string{"LookByGUID"}, "rename", false},
	{[]string{"LookBeforePost"}, "rename", true},
	{[]string{"KeepFormerGUIDs"}, "renamefaults", false},
	{[]string{"GUIDOfReadyOnly"}, "renameearly", true},
	{[]string{"RemoveDuplicate"}, "renamemark", true},
	{[]string{"AuditByGUID"}, "renamefree", false},
	{[]string{"NameTakenIsWaited"}, "taken", false},
	{[]string{"TakenWaits"}, "taken", false},
	{[]string{"RemoveOnlyKnown"}, "restored", false},
	{[]string{"DeleteFailsOverNew"}, "restored", false},
	{[]string{"UnknownIsNotNone"}, "restored", false},
	{[]string{"AuditByOperation"}, "restoredaudit", false},
	{[]string{"LookAfterDeadline"}, "restoredlife", false},
	{[]string{"PlanOfRow"}, "plan", false},
	{[]string{"DeleteFailedWaits"}, "plan", false},
	{[]string{"DeadlineWaits"}, "planfaults", false},
	{[]string{"ListAfterRead"}, "twoidslate", true},
	{[]string{"JudgeBeforeLook"}, "twoids", false},
	{[]string{"PostOnRevision"}, "twoids", false},
	{[]string{"ReportOnRevision"}, "tworounds", false},
	{[]string{"ConfirmAfterList"}, "pages", false},
	{[]string{"RoleStaysAway"}, "pages", false},
	{[]string{"AloneWhenTorn"}, "pages", false},
	{[]string{"ReportOnRevision"}, "pages", false},
}

// named returns a scenario by its name.
func named(name string) (scenario, error) {
	for _, sc := range scenarios() {
		if sc.Name == name {
			return sc, nil
		}
	}
	return scenario{}, fmt.Errorf("no scenario is called %q", name)
}
