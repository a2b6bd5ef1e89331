package cf

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// everyCall makes each of the five calls once.
func everyCall(ctx context.Context, b *Backend) map[string]func() (broker.Answer, error) {
	key := broker.KeyCall{Name: "k", InstanceGUID: "g", Marks: testCall().Marks}
	return map[string]func() (broker.Answer, error){
		"POST /v3/service_instances":                func() (broker.Answer, error) { return b.CreateInstance(ctx, testCall()) },
		"PATCH /v3/service_instances/g":             func() (broker.Answer, error) { return b.UpdateInstance(ctx, "g", testCall()) },
		"DELETE /v3/service_instances/g":            func() (broker.Answer, error) { return b.DeleteInstance(ctx, "g") },
		"POST /v3/service_credential_bindings":      func() (broker.Answer, error) { return b.CreateKey(ctx, key) },
		"DELETE /v3/service_credential_bindings/k1": func() (broker.Answer, error) { return b.DeleteKey(ctx, "k1") },
	}
}

// TestNothingIsRepeated has the server read each call and hang up, on connections
// that were used before, which is when net/http repeats what it may.
func TestNothingIsRepeated(t *testing.T) {
	t.Parallel()
	s := newStub(t, hangUp)
	for request := range everyCall(t.Context(), nil) {
		b := s.backend(t, nil)
		if _, err := b.space(t.Context(), "postgres"); err != nil { // warms the connection
			t.Fatal(err)
		}
		answer, err := everyCall(t.Context(), b)[request]()
		if answer.Reply != lifecycle.ReplyUnknown || err == nil {
			t.Errorf("%s: answer %+v, %v; want unknown with an error", request, answer, err)
		}
		if n := s.count(request); n != 1 {
			t.Errorf("%s was sent %d times, want once", request, n)
		}
	}
}

// TestChangesHaveAConnectionOfTheirOwn: one that was kept may have died unnoticed,
// for instance while the process was frozen, and a POST on it is of unknown fate.
func TestChangesHaveAConnectionOfTheirOwn(t *testing.T) {
	t.Parallel()
	s := newStub(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "/v3/jobs/j")
		reply(w, http.StatusAccepted, `{}`)
	})
	var used sync.Map
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, before := used.LoadOrStore(r.RemoteAddr, true)
		if before && r.Method != http.MethodGet {
			hangUp(w, r)
			return
		}
		s.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	b := s.backend(t, func(c *Config) { c.API = server.URL })
	for request, call := range everyCall(t.Context(), b) {
		if _, err := b.space(t.Context(), "postgres"); err != nil { // leaves a connection to use again
			t.Fatal(err)
		}
		if answer, err := call(); answer.Reply != lifecycle.ReplyAccepted || err != nil {
			t.Errorf("%s: answer %+v, %v; want it accepted", request, answer, err)
		}
	}
}

func TestHalfAnAnswerIsUnknown(t *testing.T) {
	t.Parallel()
	s := newStub(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "1000")
		reply(w, http.StatusUnprocessableEntity, unprocessable("The service instance name is taken: one."))
	})
	answer, err := s.backend(t, nil).CreateInstance(t.Context(), testCall())
	if answer.Reply != lifecycle.ReplyUnknown || err == nil {
		t.Errorf("answer %+v, %v; want unknown with an error", answer, err)
	}
}

func TestAnswersAreBounded(t *testing.T) {
	t.Parallel()
	s := newStub(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK)
		block := []byte(strings.Repeat(" ", 1<<20))
		for range 17 {
			_, _ = w.Write(block)
		}
	})
	_, err := s.backend(t, nil).FindInstance(t.Context(), "g")
	if err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("error %v, want that the answer is too long", err)
	}
}

func TestDeadlines(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		own, callers time.Duration
	}{
		"the call's own time ends it": {50 * time.Millisecond, time.Hour},
		"the caller's time ends it":   {time.Hour, 50 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gone := make(chan struct{}, 8)
			s := newStub(t, func(_ http.ResponseWriter, r *http.Request) {
				<-r.Context().Done() // answers never; ends when the client has hung up
				gone <- struct{}{}
			})
			b := s.backend(t, func(c *Config) { c.CallTimeout = 10 * time.Second })
			if _, err := b.space(t.Context(), "postgres"); err != nil {
				t.Fatal(err)
			}
			b.config.CallTimeout = test.own
			ctx, cancel := context.WithTimeout(t.Context(), test.callers)
			defer cancel()
			answer, err := b.CreateInstance(ctx, testCall())
			if answer.Reply != lifecycle.ReplyUnknown || !endedByContext(err) {
				t.Errorf("answer %+v, %v; want unknown and a deadline", answer, err)
			}
			<-gone
		})
	}
}

func TestNoConnectionIsDefinite(t *testing.T) {
	t.Parallel()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refusing := "http://" + closed.Addr().String()
	_ = closed.Close()
	untrusted := httptest.NewUnstartedServer(http.NotFoundHandler())
	untrusted.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	untrusted.StartTLS()
	t.Cleanup(untrusted.Close)
	s := newStub(t, hangUp)
	lost := func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.DNSError{Err: "no such host", Name: "api.invalid", IsNotFound: true}
	}
	for name, broken := range map[string]func(*Backend){
		"refused":          func(b *Backend) { b.api = refusing },
		"untrusted by TLS": func(b *Backend) { b.api = untrusted.URL },
		"no such host": func(b *Backend) {
			b.api = "http://api.invalid"
			b.http.Transport.(roads).fresh.DialContext = lost
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := s.backend(t, nil)
			if _, err := b.space(t.Context(), "postgres"); err != nil {
				t.Fatal(err)
			}
			broken(b) // the login is at hand, so that the call itself meets it
			answer, err := b.CreateInstance(t.Context(), testCall())
			if answer.Reply != lifecycle.ReplyBusy || !Unreachable(err) {
				t.Errorf("answer %+v, %v; want busy and unreachable", answer, err)
			}
		})
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	var followed atomic.Int64
	s := newStub(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/elsewhere" {
			followed.Add(1)
			return
		}
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	})
	for request := range everyCall(t.Context(), nil) {
		if answer, _ := everyCall(t.Context(), s.backend(t, nil))[request](); answer.Reply != lifecycle.ReplyUnknown {
			t.Errorf("%s: answer %+v, want unknown", request, answer)
		}
	}
	if n := followed.Load(); n != 0 {
		t.Errorf("%d redirects were followed", n)
	}
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]Config{
		"no address":        {Now: time.Now},
		"another scheme":    {API: "ftp://127.0.0.1", Now: time.Now},
		"no host":           {API: "https://", Now: time.Now},
		"a CA that is none": {API: "https://127.0.0.1", Now: time.Now, CA: []byte("-----BEGIN NOTHING-----")},
		"no clock":          {API: "https://127.0.0.1"},
	} {
		if _, err := New(c); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
