package gocfclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cloudfoundry/go-cfclient/v3/client"
	"github.com/cloudfoundry/go-cfclient/v3/config"
	"github.com/cloudfoundry/go-cfclient/v3/resource"
)

// better is how every test of this package fails.
const better = "go-cfclient is better here now; see docs/adr/0018-resource-types-of-go-cfclient.md"

// foundry is a Cloud Controller with its UAA; what is not the root or a login goes to handle.
type foundry struct {
	*httptest.Server
	mu       sync.Mutex
	requests []string // method and URI
}

func newFoundry(t *testing.T, handle http.HandlerFunc) *foundry {
	t.Helper()
	f := &foundry{}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		f.requests = append(f.requests, r.Method+" "+r.RequestURI)
		f.mu.Unlock()
		switch r.URL.Path {
		case "", "/":
			reply(w, 200, `{"links":{"login":{"href":"`+f.URL+`"},"uaa":{"href":"`+f.URL+`"}}}`)
		case "/oauth/token":
			reply(w, 200, `{"access_token":"a","token_type":"bearer","expires_in":599}`)
		default:
			handle(w, r)
		}
	}))
	t.Cleanup(f.Close)
	return f
}

func reply(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

// count returns how many requests began like this.
func (f *foundry) count(request string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.requests {
		if strings.HasPrefix(r, request) {
			n++
		}
	}
	return n
}

func (f *foundry) client(t *testing.T, options ...config.Option) *client.Client {
	t.Helper()
	c, err := config.New(f.URL, append(options, config.ClientCredentials("ferry", "ferry"))...)
	if err != nil {
		t.Fatal(err)
	}
	made, err := client.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// create is the POST that all of Ferry is about.
func create(ctx context.Context, c *client.Client) (job string, err error) {
	return c.ServiceInstances.CreateManaged(ctx, resource.NewServiceInstanceCreateManaged("name", "space", "plan"))
}

// all returns what an error and those that it wraps hold.
func all(err error) string {
	var text strings.Builder
	for ; err != nil; err = errors.Unwrap(err) {
		_, _ = fmt.Fprintf(&text, "%+v\n%#v\n", err, err)
	}
	return text.String()
}

func TestAnErrorHidesStatusAndHeaders(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		header, value string
		status        int
		body          string
	}{
		"how long a limiter asks to stay away": {"Retry-After", "37", 429,
			`{"errors":[{"code":10016,"title":"CF-ServiceBrokerRateLimitExceeded","detail":"x"}]}`},
		"that a router knows no route": {"X-Cf-RouterError", "unknown_route", 404, "404 Not Found"},
	} {
		f := newFoundry(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(test.header, test.value)
			reply(w, test.status, test.body)
		})
		_, err := f.client(t).Jobs.Get(t.Context(), "j")
		if err == nil || strings.Contains(all(err), test.value) {
			t.Errorf("%s: the error tells it: %s\n%s", name, all(err), better)
		}
		// 10016 is a limit with 429, and a lost race with 422.
		if test.status == 429 && strings.Contains(all(err), "429") {
			t.Errorf("%s: the error tells the status: %s\n%s", name, all(err), better)
		}
	}
}

// TestTheTokenSourceIsSwappedWithoutALock shows it by the types: a run under the race detector would fail by luck.
func TestTheTokenSourceIsSwappedWithoutALock(t *testing.T) {
	t.Parallel()
	refusals := 1
	f := newFoundry(t, func(w http.ResponseWriter, _ *http.Request) {
		if refusals--; refusals >= 0 {
			reply(w, 401, `{"errors":[{"code":1000,"title":"CF-InvalidAuthToken","detail":"x"}]}`)
			return
		}
		reply(w, 200, `{"guid":"j"}`)
	})
	c := f.client(t)
	transport := reflect.ValueOf(c.HTTPAuthClient().Transport).Elem()
	inner := transport.FieldByName("transport")
	if !inner.IsValid() {
		t.Fatalf("the transport is a %s, which this test does not know\n%s", transport.Type(), better)
	}
	oauth := inner.Elem().Elem() // oauth2.Transport, whose Source each request reads
	before := oauth.FieldByName("Source").Elem().Pointer()
	if _, err := c.Jobs.Get(t.Context(), "j"); err != nil {
		t.Fatal(err)
	}
	if oauth.FieldByName("Source").Elem().Pointer() == before {
		t.Errorf("a 401 does not swap the source\n%s", better)
	}
	for _, owner := range []reflect.Type{transport.Type(), oauth.Type()} {
		for i := range owner.NumField() {
			if pkg := owner.Field(i).Type.PkgPath(); pkg == "sync" && owner.Field(i).Name != "mu" || pkg == "sync/atomic" {
				t.Errorf("%s has a lock, %s\n%s", owner, owner.Field(i).Name, better)
			}
		}
	}
}

type callersKey struct{}

// contexts notes, for each request, whether it had the caller's context.
type contexts struct{ callers map[string]bool }

func (c contexts) RoundTrip(r *http.Request) (*http.Response, error) {
	c.callers[r.URL.Path] = r.Context().Value(callersKey{}) != nil
	return http.DefaultTransport.RoundTrip(r)
}

// TestLoginsHaveAContextOfTheirOwn: a caller who leaves, or whose time is over, goes on waiting for a login; and making
// a configuration calls the API, with no context at all.
func TestLoginsHaveAContextOfTheirOwn(t *testing.T) {
	t.Parallel()
	f := newFoundry(t, func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, `{"guid":"j"}`) })
	seen := contexts{map[string]bool{}}
	c := f.client(t, config.HttpClient(&http.Client{Transport: seen}))
	if f.count("GET /") != 1 {
		t.Errorf("making a configuration took %q\n%s", f.requests, better)
	}
	if _, err := c.Jobs.Get(context.WithValue(t.Context(), callersKey{}, true), "j"); err != nil {
		t.Fatal(err)
	}
	if !seen.callers["/v3/jobs/j"] || seen.callers["/oauth/token"] {
		t.Errorf("requests with the caller's context: %v\n%s", seen.callers, better)
	}
}

func TestALostLocationCountsAsSuccess(t *testing.T) {
	t.Parallel()
	f := newFoundry(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) })
	if job, err := create(t.Context(), f.client(t)); job != "" || err != nil {
		t.Errorf("job %q, %v\n%s", job, err, better)
	}
}

// TestARedirectedPOSTIsSentAgain: what is to be sent once is sent twice, and the second time to whoever was pointed at.
func TestARedirectedPOSTIsSentAgain(t *testing.T) {
	t.Parallel()
	f := newFoundry(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v3/service_instances" {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}
	})
	_, _ = create(t.Context(), f.client(t, config.HttpClient(&http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	})))
	if n := f.count("POST /elsewhere"); n != 1 {
		t.Errorf("%d POSTs followed, although the client that was handed in follows none\n%s", n, better)
	}
}

// TestWhatItSendsIsNotWhatIsMeant: updates clear the tags, a filter is split at the commas of its values, and a path is
// put together from anything.
func TestWhatItSendsIsNotWhatIsMeant(t *testing.T) {
	t.Parallel()
	update, err := json.Marshal(resource.ServiceInstanceManagedUpdate{Metadata: resource.NewMetadata()})
	if err != nil || !strings.Contains(string(update), `"tags":null`) {
		t.Errorf("an update of metadata alone is %s, %v\n%s", update, err, better)
	}
	f := newFoundry(t, func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, `{"resources":[]}`) })
	c := f.client(t)
	options := client.NewServiceInstanceListOptions()
	options.Names.EqualTo("a,b")
	if _, _, err := c.ServiceInstances.List(t.Context(), options); err != nil {
		t.Fatal(err)
	}
	if f.count("GET /v3/service_instances?names=a%2Cb&") != 1 { // a%252Cb would be one name
		t.Errorf("requests %q\n%s", f.requests, better)
	}
	if _, err := c.ServiceInstances.Get(t.Context(), "g?x=y"); err != nil {
		t.Fatal(err)
	}
	if f.count("GET /v3/service_instances/g?x=y") != 1 {
		t.Errorf("requests %q\n%s", f.requests, better)
	}
}

// TestWhatItReadsIsNotWhatWasSent: details with volume mounts fail, and large numbers in credentials are rounded.
func TestWhatItReadsIsNotWhatWasSent(t *testing.T) {
	t.Parallel()
	body := `{"credentials":{"n":9007199254740993}}`
	f := newFoundry(t, func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, body) })
	c := f.client(t)
	details, err := c.ServiceCredentialBindings.GetDetails(t.Context(), "k")
	if err != nil || fmt.Sprintf("%.0f", details.Credentials["n"]) == "9007199254740993" {
		t.Errorf("credentials %v, %v\n%s", details, err, better)
	}
	body = `{"credentials":{},"volume_mounts":[{"driver":"x"}]}`
	if details, err := c.ServiceCredentialBindings.GetDetails(t.Context(), "k"); err == nil {
		t.Errorf("volume mounts %+v\n%s", details, better)
	}
}

// TestTheClientBringsTestLibraries: a file that is no test puts them into whatever imports the package.
func TestTheClientBringsTestLibraries(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "github.com/cloudfoundry/go-cfclient/v3/client").Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := strings.Fields(string(out))
	for _, wanted := range []string{"testing", "github.com/stretchr/testify/require", "github.com/go-martini/martini"} {
		if !slices.Contains(packages, wanted) {
			t.Errorf("it does without %s\n%s", wanted, better)
		}
	}
}
