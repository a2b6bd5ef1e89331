package brokertest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// CloudOptions are what a FakeCloud is made of.
type CloudOptions struct {
	// Now is mandatory.
	Now func() time.Time
	// Manual lets a job run until Finish is called for it. Otherwise it ends at once, and one of PlanSlow after
	// SlowFor.
	Manual  bool
	SlowFor time.Duration
	// Place is where this cloud says that it is; zero: a place of its own.
	Place broker.Place
}

// FakeCloud is a broker.Backend in memory that keeps Cloud Foundry's rules: names are unique in a space, GUIDs are
// never used twice, work is done by jobs, a POST replaces a row whose create failed, keys end with their instance, and
// the mark of an update is written by its success alone.
//
// It has no faults: a test that wants some wraps it. It may be used concurrently.
type FakeCloud struct{ *fakeState }

// fakeState is what a FakeCloud holds, with the methods by which a test looks at it and changes it. Those that are not
// exported are called with the lock held; enter takes it.
type fakeState struct {
	options CloudOptions

	mu      sync.Mutex
	rows    []*fakeRow
	jobs    []*fakeJob
	effects map[string]Effects
	made    int
}

var _ broker.Backend = (*FakeCloud)(nil)

// Effects counts the calls for a name that took effect: what was accepted, not what was tried.
type Effects struct{ Posts, Patches, Deletes int }

// fakeRow is a service instance, or a key when place is an instance's GUID.
type fakeRow struct {
	guid, name, place string
	id                string // what it was made for, however it is called since
	key               bool
	plan              string
	parameters        json.RawMessage
	marks             broker.Marks
	update            string
	last              lifecycle.LastOperation
	changed           time.Time
	job               *fakeJob // the newest
}

// busy reports whether a job works on the row, whatever its last operation says.
func (r *fakeRow) busy() bool { return r.job != nil && !r.job.status.State.Ended() }

// NewFakeCloud returns an empty cloud with the marketplace of FakePlans.
func NewFakeCloud(o CloudOptions) *FakeCloud {
	return &FakeCloud{&fakeState{options: o, effects: map[string]Effects{}}}
}

// enter locks, and lets the jobs whose time has come end.
func (c *fakeState) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.mu.Lock()
	for _, j := range c.jobs {
		if !c.options.Manual && !j.status.State.Ended() && !c.options.Now().Before(j.ends) {
			c.end(j, j.planned)
		}
	}
	return nil
}

func (c *fakeState) look(want func(*fakeRow) bool) broker.Look {
	now := c.options.Now()
	look := broker.Look{Began: now, Place: c.where()}
	for _, r := range c.rows {
		if want(r) {
			look.Rows = append(look.Rows, r.row(now))
		}
	}
	return look
}

func (r *fakeRow) row(now time.Time) broker.Row {
	row := broker.Row{
		GUID: r.guid, Marked: r.marks.Operation != "", Operation: r.marks.Operation, Seq: r.marks.Seq,
		Update: r.update, Last: r.last, Age: now.Sub(r.changed),
	}
	if !r.key {
		row.PlanGUID = r.plan
		row.DashboardURL = "https://dashboard.example/" + r.guid
	}
	return row
}

// FindInstances implements broker.Backend.
func (c *FakeCloud) FindInstances(ctx context.Context, q broker.Lookup) (broker.Look, error) {
	return c.find(ctx, func(r *fakeRow) bool { return !r.key && (r.name == q.Name || slices.Contains(q.GUIDs, r.guid)) })
}

// FindInstance implements broker.Backend.
func (c *FakeCloud) FindInstance(ctx context.Context, guid, _ string) (broker.Look, error) {
	return c.find(ctx, func(r *fakeRow) bool { return !r.key && r.guid == guid })
}

// FindKeys implements broker.Backend. An empty GUID names no instance; asking for it is a mistake of the caller, since
// a real filter would then list every key.
func (c *FakeCloud) FindKeys(ctx context.Context, q broker.Lookup) (broker.Look, error) {
	if q.Instance == "" {
		return broker.Look{}, fmt.Errorf("FindKeys(%q): the GUID of the instance is missing", q.Name)
	}
	return c.find(ctx, func(r *fakeRow) bool {
		return r.key && r.place == q.Instance && (r.name == q.Name || slices.Contains(q.GUIDs, r.guid))
	})
}

// Place implements broker.Backend.
func (c *FakeCloud) Place(ctx context.Context) (broker.Place, error) {
	if err := c.enter(ctx); err != nil {
		return broker.Place{}, err
	}
	defer c.mu.Unlock()
	return c.where(), nil
}

// Same implements broker.Backend.
func (c *FakeCloud) Same(recorded broker.Place) bool { return recorded == c.where() }

func (c *fakeState) where() broker.Place {
	if c.options.Place != (broker.Place{}) {
		return c.options.Place
	}
	return broker.Place{API: "https://api.fake.example", OrgGUID: "org-0001"}
}

// Rename gives the row another name, as somebody may by hand.
func (c *fakeState) Rename(guid, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.rows {
		if r.guid == guid {
			r.name = name
		}
	}
}

func (c *FakeCloud) find(ctx context.Context, want func(*fakeRow) bool) (broker.Look, error) {
	if err := c.enter(ctx); err != nil {
		return broker.Look{}, err
	}
	defer c.mu.Unlock()
	return c.look(want), nil
}

// Plant puts an instance there that nobody's marks are on, and returns its GUID.
func (c *fakeState) Plant(name, space string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.plant(&fakeRow{name: name, place: space, plan: PlanSmall})
}

// PlantKey puts a key there that nobody's marks are on, and returns its GUID.
func (c *fakeState) PlantKey(instanceGUID, name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.plant(&fakeRow{key: true, name: name, place: instanceGUID})
}

func (c *fakeState) plant(r *fakeRow) string {
	c.add(r)
	r.last = lifecycle.LastOperation{Verb: lifecycle.Create, State: lifecycle.LastSucceeded}
	return r.guid
}

// MarkFailed does what Cloud Foundry's clean-up does: it marks the create of the newest row of this name as failed,
// while its job goes on.
func (c *fakeState) MarkFailed(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range slices.Backward(c.rows) {
		if r.name == name {
			c.note(r, lifecycle.Create, lifecycle.LastFailed, "stuck; set to failed by a clean-up job")
			return
		}
	}
}

// Vanish takes the rows of this name away without a trace, as an operator may.
func (c *fakeState) Vanish(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range slices.Clone(c.rows) {
		if r.name == name {
			c.remove(r)
		}
	}
}

// EffectsOf returns what took effect for a name.
func (c *fakeState) EffectsOf(name string) Effects {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.effects[name]
}

// Left is what the cloud holds of one row.
type Left struct {
	Name, GUID string
	// Instance is empty for an instance and its GUID for a key.
	Instance string
	// Operation and Update are the marks, Plan the plan's GUID.
	Operation, Update, Plan string
	Parameters              string
	Last                    lifecycle.LastOperation
}

// Living reports whether the create of the row succeeded, or still may.
func (l Left) Living() bool {
	return l.Last.Verb != lifecycle.Create || l.Last.State != lifecycle.LastFailed
}

// Left lists every row, oldest first: two clouds of equal content give equal lists.
func (c *fakeState) Left() []Left {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []Left
	for _, r := range c.rows {
		l := Left{
			Name: r.name, GUID: r.guid, Operation: r.marks.Operation, Update: r.update,
			Plan: r.plan, Parameters: string(r.parameters), Last: r.last,
		}
		if r.key {
			l.Instance = r.place
		}
		out = append(out, l)
	}
	return out
}

// Describe is Left in one line, for traces.
func (c *fakeState) Describe() string {
	var parts []string
	for _, l := range c.Left() {
		parts = append(parts, fmt.Sprintf("%s=%s(%s %s/%s)", l.Name, l.GUID, l.Operation, l.Last.Verb, l.Last.State))
	}
	return strings.Join(parts, " ")
}

// ForeignKeys implements broker.Backend.
func (c *FakeCloud) ForeignKeys(ctx context.Context, instanceGUID string) ([]string, error) {
	if err := c.enter(ctx); err != nil {
		return nil, err
	}
	defer c.mu.Unlock()
	var names []string
	for _, r := range c.rows {
		if r.key && r.place == instanceGUID && r.marks.Operation == "" {
			names = append(names, r.name)
		}
	}
	return names, nil
}

// Marked implements broker.Backend.
func (c *FakeCloud) Marked(ctx context.Context) ([]broker.Marked, error) {
	if err := c.enter(ctx); err != nil {
		return nil, err
	}
	defer c.mu.Unlock()
	ids := map[string]string{}
	for _, r := range c.rows {
		if !r.key {
			ids[r.guid] = r.id
		}
	}
	var list []broker.Marked
	for _, r := range c.rows {
		if r.marks.Operation == "" {
			continue
		}
		key := broker.Key{InstanceID: r.id}
		if r.key {
			key = broker.Key{InstanceID: ids[r.place], BindingID: r.id}
		}
		list = append(list, broker.Marked{Key: key, GUID: r.guid, Operation: r.marks.Operation, Seq: r.marks.Seq})
	}
	return list, nil
}

// End is how a job ends. The zero value is success.
type End struct {
	Fail        bool
	Description string
	// Code is an OSB error word; FromBackingBroker says that the failure is the backing broker's own.
	Code              string
	FromBackingBroker bool
}

// Rejected is the end of a job that the backing broker refuses.
func Rejected(description string) End {
	return End{Fail: true, FromBackingBroker: true, Description: description}
}

type fakeJob struct {
	guid    string
	verb    lifecycle.Verb
	row     *fakeRow
	call    broker.InstanceCall
	planned End
	ends    time.Time
	status  broker.JobStatus
}

// start is called with the lock held. A job that need not wait has ended when it returns.
func (c *fakeState) start(verb lifecycle.Verb, r *fakeRow, call broker.InstanceCall, planned End) *fakeJob {
	j := &fakeJob{
		guid: fmt.Sprintf("job-%04d", len(c.jobs)+1), verb: verb, row: r, call: call, planned: planned,
		status: broker.JobStatus{State: lifecycle.JobProcessing}, ends: c.due(call.PlanGUID),
	}
	c.jobs = append(c.jobs, j)
	r.job = j
	c.note(r, verb, lifecycle.LastInProgress, "")
	if !c.options.Manual && !c.options.Now().Before(j.ends) {
		c.end(j, planned)
	}
	return j
}

// end is called with the lock held.
func (c *fakeState) end(j *fakeJob, e End) {
	r := j.row
	if c.row(r.guid, r.key) != r || r.job != j {
		e = End{Fail: true, Description: fmt.Sprintf("%s could not be completed: another operation came between", j.verb)}
	} else if e.Fail {
		c.note(r, j.verb, lifecycle.LastFailed, e.Description)
	} else {
		c.succeed(j)
	}
	j.status = broker.JobStatus{State: lifecycle.JobComplete}
	if e.Fail {
		j.status = broker.JobStatus{State: lifecycle.JobFailed, FromBackingBroker: e.FromBackingBroker, Description: e.Description, Code: e.Code}
	}
}

func (c *fakeState) succeed(j *fakeJob) {
	r := j.row
	switch j.verb {
	case lifecycle.Delete:
		c.remove(r)
		return
	case lifecycle.Update:
		r.update = j.call.Marks.Operation
		if j.call.PlanGUID != "" {
			r.plan = j.call.PlanGUID
		}
		if len(j.call.Parameters) > 0 {
			r.parameters = j.call.Parameters
		}
	default: // a create changes nothing but its last operation
	}
	c.note(r, j.verb, lifecycle.LastSucceeded, "")
}

// Finish ends a running job. It does nothing for one that has ended.
func (c *fakeState) Finish(job string, e End) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.jobs, func(j *fakeJob) bool { return j.guid == job && !j.status.State.Ended() })
	if i >= 0 {
		c.end(c.jobs[i], e)
	}
}

// FinishAll ends the running jobs as their plans want it, oldest first, until none runs.
func (c *fakeState) FinishAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, j := range c.jobs {
		if !j.status.State.Ended() {
			c.end(j, j.planned)
		}
	}
}

// Running lists the jobs that have not ended, oldest first.
func (c *fakeState) Running() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for _, j := range c.jobs {
		if !j.status.State.Ended() {
			out = append(out, j.guid)
		}
	}
	return out
}

// Forget makes Cloud Foundry lose every job that has ended, as it does after a while.
func (c *fakeState) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, j := range c.jobs {
		if j.status.State.Ended() {
			j.status = broker.JobStatus{State: lifecycle.JobLost}
		}
	}
}

// Job implements broker.Backend.
func (c *FakeCloud) Job(ctx context.Context, guid string) (broker.JobStatus, error) {
	if err := c.enter(ctx); err != nil {
		return broker.JobStatus{State: lifecycle.JobUnclear}, err
	}
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.jobs, func(j *fakeJob) bool { return j.guid == guid })
	if i < 0 {
		return broker.JobStatus{State: lifecycle.JobLost}, nil
	}
	status := c.jobs[i].status
	if row := c.jobs[i].row; c.row(row.guid, row.key) == row {
		status.GUID = row.guid // named while the row is there
	}
	return status, nil
}
