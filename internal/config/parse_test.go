package config_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-broker/ferry/internal/config"
)

// hash is bcrypt, cost 4, of "swordfish".
const hash = "$2a$04$jzPgE4zDbth7KYcKm159eOr/4r/GhVv3MbnoT0tyQpYT8IYPebQfe"

// world is an environment and a disk.
type world struct{ env, files map[string]string }

func (w world) lookupEnv(name string) (string, bool) {
	value, found := w.env[name]
	return value, found
}

func (w world) readFile(path string) ([]byte, error) {
	content, found := w.files[path]
	switch {
	case path == "/forbidden":
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrPermission}
	case path == "/broken":
		return nil, errors.New("disk says hunter2")
	case !found:
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	return []byte(content), nil
}

func parse(text string, w world) (config.Config, error) {
	return config.Parse("ferry.yaml", []byte(text), w.lookupEnv, w.readFile)
}

// withSecrets compares secrets by their text.
func withSecrets() cmp.Option { return cmp.AllowUnexported(config.Secret{}) }

// minimal is the least text that is valid.
const minimal = `
clients:
  - name: a
    credentials:
      - {username: a, password: pa}
    cloud_foundry: {api: http://127.0.0.1:8081/, org: ferry, client_id: ferry, client_secret: s}
`

func defaultsWith(client config.Client) config.Config {
	client.Catalog.IDs = config.IDsBroker
	client.Quirks = config.Quirks{MissingVersion: 400, FinishedDelete: 200}
	client.CatalogRefresh = 5 * time.Minute
	return config.Config{
		Clients: []config.Client{client},
		Polling: config.Polling{First: 2 * time.Second, Max: time.Minute},
		Operations: config.Operations{
			Deadline: 7 * 24 * time.Hour, TombstoneTTL: 8 * 24 * time.Hour, SettleAfter: 20 * time.Minute, RequestBudget: 26 * time.Second,
		},
		Limits: config.Limits{RequestBytes: 1048576, ParametersBytes: 262144, ConcurrentRequests: 256},
	}
}

func TestDefaultsFillWhatIsLeftOut(t *testing.T) {
	t.Parallel()
	want := defaultsWith(config.Client{
		Name:         "a",
		Credentials:  []config.Credential{{Username: "a", Password: config.NewSecret("pa")}},
		CloudFoundry: config.CloudFoundry{API: "http://127.0.0.1:8081", Org: "ferry", ClientID: "ferry", ClientSecret: config.NewSecret("s")},
	})
	for name, text := range map[string]string{
		"absent sections":    minimal,
		"null sections":      minimal + "polling:\noperations: ~\nlimits: null\nmetrics:\n  credentials:\n",
		"empty sections":     minimal + "polling: {}\noperations: {}\nlimits: {}\nmetrics: {credentials: []}\n",
		"a document header":  "---" + minimal + "...\n",
		"a byte order mark":  "\ufeff" + minimal,
		"Windows' line ends": strings.ReplaceAll(minimal, "\n", "\r\n"),
		"JSON": `{"clients":[{"name":"a","credentials":[{"username":"a","password":"pa"}],
		  "cloud_foundry":{"api":"http://127.0.0.1:8081","org":"ferry","client_id":"ferry","client_secret":"s","ca_file":""}}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := parse(text, world{})
			if diff := cmp.Diff(want, got, withSecrets()); err != nil || diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestEveryKeyOfTheExampleIsRead(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	ca := certificate(t)
	got, err := parse(string(text), world{
		env: map[string]string{
			"OPENSHIFT_A_PASSWORD": "one", "CF_SECRET": "two", "CLOUD_FOUNDRY_B_PASSWORD": "three", "CF_PASSWORD": "four", "METRICS_PASSWORD": "five",
		},
		files: map[string]string{"/run/secrets/openshift-a-next": hash + "\n", "/etc/ferry/ca.pem": ca},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := defaultsWith(config.Client{
		Name:         "openshift-a",
		Credentials:  []config.Credential{{Username: "openshift-a", Password: config.NewSecret("one")}, {Username: "openshift-a", PasswordHash: config.NewSecret(hash)}},
		CloudFoundry: config.CloudFoundry{API: "https://api.cf.example.org", Org: "ferry", ClientID: "ferry", ClientSecret: config.NewSecret("two")},
	})
	second := want.Clients[0]
	want.Clients[0].CloudFoundry.FormerAPIs = []string{"https://api.old.cf.example.org"}
	want.Clients[0].Catalog.Rotatable = []string{"postgres", "queue/standard"}
	want.Clients[0].ConcurrentRequests = 128
	second.Name = "cloud-foundry-b"
	second.Credentials = []config.Credential{{Username: "cloud-foundry-b", Password: config.NewSecret("three")}}
	second.CloudFoundry = config.CloudFoundry{
		API: "https://api.cf.example.org", Org: "ferry-b", Username: "ferry@example.org", Password: config.NewSecret("four"),
		CAFile: "/etc/ferry/ca.pem", CA: []byte(ca),
	}
	second.Catalog.IDs = config.IDsCloudFoundry
	want.Clients = append(want.Clients, second)
	want.Metrics.Credentials = []config.Credential{{Username: "prometheus", Password: config.NewSecret("five")}}
	if diff := cmp.Diff(want, got, withSecrets()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if warnings := got.Warnings(); warnings != nil {
		t.Errorf("the example warns: %q", warnings)
	}
}

func TestValuesThatAreNotDefaultsAreRead(t *testing.T) {
	t.Parallel()
	text := minimal + `
    catalog: {ids: cloud_foundry, rotatable: [a, b/c, "a/b", "My DB/<x>", b]}
    quirks: {missing_version: 412, finished_delete: 410}
    catalog_refresh: 1h30m
    concurrent_requests: 7
polling: {first: 5ms, max: 0.5s}
operations: {deadline: 10s, keep: 20s, settle_after: 1s, request_budget: 900ms}
limits: {request_bytes: 10, parameters_bytes: 20, concurrent_requests: 30}
metrics: {credentials: [{username: m, password: mp}, {username: m, password_hash: "` + hash + `"}]}
`
	text = strings.Replace(text, "client_secret: s", "client_secret: s, skip_tls_verify: true", 1)
	got, err := parse(text, world{})
	if err != nil {
		t.Fatal(err)
	}
	want := config.Config{
		Clients: []config.Client{{
			Name: "a", Credentials: []config.Credential{{Username: "a", Password: config.NewSecret("pa")}},
			CloudFoundry: config.CloudFoundry{
				API: "http://127.0.0.1:8081", Org: "ferry", ClientID: "ferry", ClientSecret: config.NewSecret("s"), SkipTLSVerify: true,
			},
			Catalog:        config.Catalog{IDs: "cloud_foundry", Rotatable: []string{"a", "b/c", "a/b", "My DB/<x>", "b"}},
			Quirks:         config.Quirks{MissingVersion: 412, FinishedDelete: 410},
			CatalogRefresh: 90 * time.Minute, ConcurrentRequests: 7,
		}},
		Polling:    config.Polling{First: 5 * time.Millisecond, Max: 500 * time.Millisecond},
		Operations: config.Operations{Deadline: 10 * time.Second, TombstoneTTL: 20 * time.Second, SettleAfter: time.Second, RequestBudget: 900 * time.Millisecond},
		Limits:     config.Limits{RequestBytes: 10, ParametersBytes: 20, ConcurrentRequests: 30},
		Metrics:    config.Metrics{Credentials: []config.Credential{{Username: "m", Password: config.NewSecret("mp")}, {Username: "m", PasswordHash: config.NewSecret(hash)}}},
	}
	if diff := cmp.Diff(want, got, withSecrets()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestReferencesAreResolvedEverywhere(t *testing.T) {
	t.Parallel()
	got, err := parse(`
clients:
  - name: ${env:NAME}
    credentials: [{username: "${file:/user}", password: "${file:/password}"}]
    cloud_foundry: &cf {api: "${env:API}", org: "${env:ORG}", client_id: ferry, client_secret: "${env:SECRET}", skip_tls_verify: "${env:SKIP}"}
    catalog_refresh: ${env:REFRESH}
    quirks: {missing_version: "${env:STATUS}"}
  - name: b
    credentials: [{username: b, password: "$x{y}"}]
    cloud_foundry: *cf
limits: {request_bytes: "${env:BYTES}"}
`, world{
		env: map[string]string{
			"NAME": "a", "API": "https://cf.example.org", "ORG": "2024", "SECRET": " ${env:NAME}: [\n", "SKIP": "true",
			"REFRESH": "7m", "STATUS": "412", "BYTES": "77",
		},
		files: map[string]string{"/user": "u", "/password": "line\nend \r\n\n"},
	})
	if err != nil {
		t.Fatal(err)
	}
	a, b := got.Clients[0], got.Clients[1]
	if diff := cmp.Diff([]any{
		"a", config.Credential{Username: "u", Password: config.NewSecret("line\nend ")}, "https://cf.example.org", "2024", " ${env:NAME}: [\n", true,
		7 * time.Minute, 412, int64(77), "$x{y}", "https://cf.example.org",
	}, []any{
		a.Name, a.Credentials[0], a.CloudFoundry.API, a.CloudFoundry.Org, a.CloudFoundry.ClientSecret.Text(), a.CloudFoundry.SkipTLSVerify,
		a.CatalogRefresh, a.Quirks.MissingVersion, got.Limits.RequestBytes, b.Credentials[0].Password.Text(), b.CloudFoundry.API,
	}, withSecrets()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDemoIsWhatAFileCouldSay(t *testing.T) {
	t.Parallel()
	want, err := parse(`
clients:
  - name: demo
    credentials: [{username: demo, password: demo}]
    cloud_foundry: {api: http://sim, org: demo, client_id: ferry, client_secret: ferry}
operations: {settle_after: 5s}
`, world{})
	if err != nil {
		t.Fatal(err)
	}
	got := config.Demo()
	got.Clients[0].CloudFoundry.API = "http://sim"
	if diff := cmp.Diff(want, got, withSecrets()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if config.Demo().Clients[0].CloudFoundry.API != "" {
		t.Error("two demos share memory")
	}
}

func TestWarningsNameWhatIsSeldomMeant(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"operations: {deadline: 1h, keep: 1h, settle_after: 1h}":  nil,
		"operations: {deadline: 1h, keep: 59m}":                   {"operations.keep (59m0s) is below operations.deadline (1h0m0s)"},
		"operations: {deadline: 1m}":                              {"operations.settle_after (20m0s) is above operations.deadline (1m0s)"},
		"operations: {deadline: 3m, keep: 1m, settle_after: 10m}": {"operations.keep", "operations.settle_after"},
	} {
		c, err := parse(minimal+text, world{})
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		got := c.Warnings()
		if len(got) != len(want) {
			t.Errorf("%s: %q", text, got)
			continue
		}
		for i := range want {
			if !strings.HasPrefix(got[i], want[i]) || !strings.HasSuffix(got[i], ".") {
				t.Errorf("%s: %q, want it to begin with %q", text, got[i], want[i])
			}
		}
	}
}

// Nothing prints a configuration; if it did, the secrets would not be in it.
func TestPrintingLeavesSecretsOut(t *testing.T) {
	t.Parallel()
	c := config.Demo()
	secret := config.NewSecret("hunter2")
	c.Clients[0].Credentials[0] = config.Credential{Username: "user", Password: secret, PasswordHash: secret}
	c.Clients[0].CloudFoundry = config.CloudFoundry{API: "http://sim", ClientSecret: secret, Password: secret}
	for _, v := range []any{c, &c, c.Clients[0].Credentials[0], &c.Clients[0].CloudFoundry, secret, &secret} {
		printed := ""
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			printed += fmt.Sprintf(verb, v) + "\n"
		}
		var lines bytes.Buffer
		slog.New(slog.NewTextHandler(&lines, nil)).Info("", "v", v)
		slog.New(slog.NewJSONHandler(&lines, nil)).Info("", "v", v)
		if printed += lines.String(); strings.Contains(printed, "hunter2") || strings.Contains(printed, fmt.Sprintf("%x", "hunter2")) {
			t.Errorf("printed: %s", printed)
		}
	}
}

// twoClients is a text with two clients, the second one in the org at the API.
func twoClients(first, second, api, org string) string {
	return fmt.Sprintf(`
clients:
  - name: %q
    credentials: [{username: a, password: pa}]
    cloud_foundry: {api: https://api.example.org, org: ferry, client_id: ferry, client_secret: s}
  - name: %q
    credentials: [{username: b, password: pb}]
    cloud_foundry: {api: %q, org: %q, client_id: ferry, client_secret: s}
`, first, second, api, org)
}

// In one org a label in Cloud Foundry tells the rows of two clients apart; where it cannot, each would delete the
// other's.
func TestTwoClientsOfOneOrgHaveLabelsOfTheirOwn(t *testing.T) {
	t.Parallel()
	const api, org = "https://api.example.org", "ferry"
	for name, c := range map[string]struct{ first, second, api, org string }{
		"a dash behind":                   {"a", "a-", api, org},
		"dashes on both sides":            {"-a", "a--", api, org},
		"no letter at all":                {"a", "-", api, org},
		"no letter at all, first":         {"--", "a", api, org},
		"another spelling of the org":     {"a", "a-", api, "Ferry"},
		"another spelling of the address": {"a", "a-", "https://API.example.org:443/", org},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := parse(twoClients(c.first, c.second, c.api, c.org), world{})
			if err == nil || !strings.HasPrefix(err.Error(), "clients[1].name: cannot be told from clients[0], which uses the same org: ") || !strings.HasSuffix(err.Error(), "(line 6)") {
				t.Errorf("%v, want a fault of clients[1].name", err)
			}
		})
	}
	for name, c := range map[string]struct {
		first, second, api, org string
		warnings                int
		shared                  bool
	}{
		"names that differ":                      {"a", "a-b", api, org, 1, true},
		"an org of its own":                      {"a", "a-", api, "ferry-b", 1, false},
		"another Cloud Foundry":                  {"a", "-", "https://api.example.com", org, 1, false},
		"another port of one host":               {"a", "a-", api + ":8443", org, 1, false},
		"an org of its own for each plain name":  {"a", "b", api, "ferry-b", 0, false},
		"a name with a dash that was configured": {"a-", "b", api, "ferry-b", 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := parse(twoClients(c.first, c.second, c.api, c.org), world{})
			shared := fmt.Sprintf("The clients %s and %s use the same org", c.first, c.second)
			warnings := got.Warnings()
			if err != nil || len(warnings) != c.warnings || strings.HasPrefix(strings.Join(warnings, "\n"), shared) != c.shared {
				t.Errorf("%v, warnings %q, want %d and no fault", err, warnings, c.warnings)
			}
		})
	}
}

func TestAShorterMaxLowersTheDefaultOfFirst(t *testing.T) {
	t.Parallel()
	c, err := parse(minimal+"polling: {max: 500ms}", world{})
	if err != nil || c.Polling.First != 500*time.Millisecond {
		t.Errorf("first %v, error %v", c.Polling.First, err)
	}
}
