package cf

import (
	"errors"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

func failedWith(code int, title, detail string) string {
	return `{"guid":"j","state":"FAILED",` + cfError(code, title, detail)[1:]
}

func rowWith(last string) string { return `{"guid":"g","name":"one","last_operation":` + last + `}` }

// jobScenario is what a job and the row beside it say, and what that must be read as.
type jobScenario struct {
	job  string // empty: Cloud Foundry does not know it
	row  string // empty: not looked at
	want broker.JobStatus
	last lifecycle.LastOperation
}

func createScenarios() map[string]jobScenario {
	return map[string]jobScenario{
		"17_the_broker_refuses": {
			failedWith(10009, unable, "provision could not be completed: Service broker error: no room at https://b.internal/x"),
			rowWith(`{"type":"create","state":"failed","description":"Service broker error: no room at https://b.internal/x"}`),
			broker.JobStatus{State: lifecycle.JobFailed, FromBackingBroker: true, Description: "no room at [address]"},
			lifecycle.LastOperation{Verb: lifecycle.Create, State: lifecycle.LastFailed, Description: "no room at [address]"}},
		"18_polling_time_is_over": {
			failedWith(290006, "CF-JobTimeout", "The job execution has timed out."),
			rowWith(`{"type":"create","state":"failed","description":"Service Broker failed to provision within the required time."}`),
			broker.JobStatus{State: lifecycle.JobFailed, Description: "The job execution has timed out."},
			lifecycle.LastOperation{Verb: lifecycle.Create, State: lifecycle.LastFailed, Description: "Service Broker failed to provision within the required time."}},
		"19_the_cleanup_was_early": {
			`{"guid":"j","state":"PROCESSING"}`,
			rowWith(`{"type":"create","state":"failed","description":"Operation was stuck in \"initial\" state. Set to \"failed\" by cleanup job."}`),
			broker.JobStatus{State: lifecycle.JobProcessing},
			lifecycle.LastOperation{Verb: lifecycle.Create, State: lifecycle.LastFailed, Description: `Operation was stuck in "initial" state. Set to "failed" by cleanup job.`}},
		"20_the_job_is_lost": {"", rowWith(`{"type":"create","state":"in progress","description":null}`),
			broker.JobStatus{State: lifecycle.JobLost}, lifecycle.LastOperation{Verb: lifecycle.Create, State: lifecycle.LastInProgress}},
		"21_polling_for_hours": {`{"guid":"j","state":"POLLING","created_at":"2026-01-01T00:00:00Z"}`, "",
			broker.JobStatus{State: lifecycle.JobPolling}, lifecycle.LastOperation{}},
		"22_vanished_while_creating": {failedWith(10010, "CF-ResourceNotFound", "The service instance could not be found: g."), "",
			broker.JobStatus{State: lifecycle.JobFailed, Description: "The service instance could not be found: g."}, lifecycle.LastOperation{}},
	}
}

func changeScenarios() map[string]jobScenario {
	return map[string]jobScenario{
		"28_the_row_stays_in_progress": {
			failedWith(10009, unable, "update could not be completed: Sequel::DatabaseError: x"),
			rowWith(`{"type":"update","state":"in progress"}`),
			broker.JobStatus{State: lifecycle.JobFailed, Description: "Sequel::DatabaseError: x"},
			lifecycle.LastOperation{Verb: lifecycle.Update, State: lifecycle.LastInProgress}},
		"29_the_broker_refuses_an_update": {
			failedWith(10009, unable, "update could not be completed: Service broker error: not today"),
			rowWith(`{"type":"update","state":"failed","description":"Service broker error: not today"}`),
			broker.JobStatus{State: lifecycle.JobFailed, FromBackingBroker: true, Description: "not today"},
			lifecycle.LastOperation{Verb: lifecycle.Update, State: lifecycle.LastFailed, Description: "not today"}},
		"30_nothing_shows_after_a_delete": {`{"guid":"j","state":"PROCESSING"}`, rowWith(`{"type":"create","state":"succeeded"}`),
			broker.JobStatus{State: lifecycle.JobProcessing}, lifecycle.LastOperation{Verb: lifecycle.Create, State: lifecycle.LastSucceeded}},
		"33_the_create_still_runs": {
			failedWith(60016, "CF-AsyncServiceInstanceOperationInProgress", "An operation for service instance one is in progress."),
			rowWith(`{"type":"create","state":"in progress"}`),
			broker.JobStatus{State: lifecycle.JobFailed, Description: "An operation for service instance one is in progress."},
			lifecycle.LastOperation{Verb: lifecycle.Create, State: lifecycle.LastInProgress}},
		"34_a_key_stands_in_the_way": {
			failedWith(10009, unable, "delete could not be completed: An operation for a service binding of service instance one is in progress."), "",
			broker.JobStatus{State: lifecycle.JobFailed, Description: "An operation for a service binding of service instance one is in progress."}, lifecycle.LastOperation{}},
		"35_an_old_failure_shows": {`{"guid":"j","state":"POLLING"}`,
			rowWith(`{"type":"delete","state":"failed","description":"x","updated_at":"2026-01-02T03:00:05Z"}`),
			broker.JobStatus{State: lifecycle.JobPolling}, lifecycle.LastOperation{Verb: lifecycle.Delete, State: lifecycle.LastFailed, Description: "x"}},
		"36_the_broker_refuses_a_delete": {
			failedWith(10009, unable, "delete could not be completed: Service instance one: Service broker error: in use"),
			rowWith(`{"type":"delete","state":"failed","description":"Service instance one: Service broker error: in use"}`),
			broker.JobStatus{State: lifecycle.JobFailed, FromBackingBroker: true, Description: "in use"},
			lifecycle.LastOperation{Verb: lifecycle.Delete, State: lifecycle.LastFailed, Description: "Service instance one: in use"}},
		"38_only_the_name_of_a_class": {
			failedWith(10009, unable, "create could not be completed: "+lastOperationClass),
			rowWith(`{"type":"create","state":"failed","description":"no more users"}`),
			broker.JobStatus{State: lifecycle.JobFailed, FromBackingBroker: true},
			lifecycle.LastOperation{Verb: lifecycle.Create, State: lifecycle.LastFailed, Description: "no more users"}},
	}
}

// TestJobScenarios: what a job says, and what the row says beside it.
func TestJobScenarios(t *testing.T) {
	t.Parallel()
	cases := createScenarios()
	maps.Copy(cases, changeScenarios())
	for scenario, test := range cases {
		t.Run("scenario_"+scenario, func(t *testing.T) {
			t.Parallel()
			s := newStub(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Date", "Fri, 02 Jan 2026 03:04:05 GMT")
				switch {
				case strings.HasPrefix(r.URL.Path, "/v3/service_instances/"):
					reply(w, 200, test.row)
				case test.job == "":
					reply(w, 404, cfError(10010, "CF-ResourceNotFound", "Job not found"))
				default:
					reply(w, 200, test.job)
				}
			})
			b := s.backend(t, nil)
			got, err := b.Job(t.Context(), "j")
			if diff := cmp.Diff(test.want, got); err != nil || diff != "" {
				t.Errorf("job: %v (-want +got):\n%s", err, diff)
			}
			if test.row == "" {
				return
			}
			look, err := b.FindInstance(t.Context(), "g")
			if err != nil || len(look.Rows) != 1 {
				t.Fatalf("look %+v, %v", look, err)
			}
			if diff := cmp.Diff(test.last, look.Rows[0].Last); diff != "" {
				t.Errorf("row (-want +got):\n%s", diff)
			}
			if want := 4 * time.Minute; strings.HasPrefix(scenario, "35") && look.Rows[0].Age != want {
				t.Errorf("the row's age is %v, want %v", look.Rows[0].Age, want)
			}
		})
	}
}

// TestLookScenarios: what a list shows.
func TestLookScenarios(t *testing.T) {
	t.Parallel()
	list := func(rows ...string) string {
		return `{"pagination":{"next":null},"resources":[` + strings.Join(rows, ",") + `]}`
	}
	row := func(guid, space, last string) string {
		return `{"guid":"` + guid + `","name":"one","last_operation":` + last + `,"dashboard_url":"https://d.example.org/` + guid + `",
			"relationships":{"space":{"data":{"guid":"` + space + `"}}}}`
	}
	const succeeded, failed = `{"type":"create","state":"succeeded"}`, `{"type":"create","state":"failed"}`
	for scenario, test := range map[string]struct {
		status int
		body   string
		want   []string // GUID and state
		fails  bool
	}{
		"04_the_first_finished":             {200, list(row("g1", "s1", succeeded)), []string{"g1 succeeded"}, false},
		"06_the_same_id_in_another_space":   {200, list(row("g1", "s1", succeeded), row("g2", "s2", `{"type":"create","state":"initial"}`)), []string{"g1 succeeded", "g2 initial"}, false},
		"07_a_failed_row":                   {200, list(row("g1", "s1", failed)), []string{"g1 failed"}, false},
		"31_an_empty_list":                  {200, list(), nil, false},
		"31_a_router_that_knows_no_route":   {404, "404 Not Found: Requested route ('api.x') does not exist.", nil, true},
		"40_Cloud_Foundry_without_database": {503, cfError(10015, "CF-ServiceUnavailable", "Database connection failure"), nil, true},
		"40_maintenance":                    {503, "API down for maintenance", nil, true},
		"40_nginx_limits":                   {429, "<html>429</html>", nil, true},
	} {
		t.Run("scenario_"+scenario, func(t *testing.T) {
			t.Parallel()
			s := newStub(t, func(w http.ResponseWriter, _ *http.Request) { reply(w, test.status, test.body) })
			look, err := s.backend(t, nil).FindInstances(t.Context(), "one")
			var got []string
			for _, r := range look.Rows {
				got = append(got, r.GUID+" "+string(r.Last.State))
				if r.DashboardURL != "https://d.example.org/"+r.GUID {
					t.Errorf("row %s has dashboard %q", r.GUID, r.DashboardURL)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" || (err != nil) != test.fails {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

// TestDetailScenarios: what is not there yet is never gone.
func TestDetailScenarios(t *testing.T) {
	t.Parallel()
	const notFound = "CF-ResourceNotFound"
	for scenario, test := range map[string]struct {
		status int
		body   string
		gone   bool
	}{
		"38_create_initial":     {404, cfError(10010, notFound, "Creation of service key initial"), false},
		"38_create_in_progress": {404, cfError(10010, notFound, "Creation of service key in progress"), false},
		"38_create_failed":      {404, cfError(10010, notFound, "Creation of service key failed"), false},
		"38_no_CredHub":         {503, cfError(10015, "CF-ServiceUnavailable", "Fetching credentials from CredHub failed; reason: x"), false},
		"38_Korifi_unfinished":  {500, cfError(10001, "UnknownError", "An unknown error occurred."), false},
		"39_delete_in_progress": {404, cfError(10010, notFound, "Deletion of service key in progress"), false},
		"39_delete_failed":      {404, cfError(10010, notFound, "Deletion of service key failed"), false},
		"39_gone":               {404, cfError(10010, notFound, "Service credential binding not found"), true},
	} {
		t.Run("scenario_"+scenario, func(t *testing.T) {
			t.Parallel()
			s := newStub(t, func(w http.ResponseWriter, _ *http.Request) { reply(w, test.status, test.body) })
			_, err := s.backend(t, nil).KeyDetails(t.Context(), "k")
			if err == nil || errors.Is(err, broker.ErrNotFound) != test.gone {
				t.Errorf("error %v, want gone %v", err, test.gone)
			}
		})
	}
}
