package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/catalog"
)

// CAT-01, CAT-05, CAT-06.
func TestCatalogConditions(t *testing.T) {
	t.Parallel()
	at := func(d time.Duration) string { return modified.Add(d).Format(http.TimeFormat) }
	for _, test := range []struct {
		name    string
		options []option
		status  int
	}{
		{"no condition", nil, 200},
		{"the tag", []option{with("If-None-Match", `"abc"`)}, 304},
		{"the tag made weak by a proxy", []option{with("If-None-Match", `W/"abc"`)}, 304},
		{"the tag in a list", []option{with("If-None-Match", `"x,y" , W/"z","abc"`)}, 304},
		{"the tag in a second header", []option{with("If-None-Match", `"x"`), func(r *http.Request) { r.Header.Add("If-None-Match", `"abc"`) }}, 304},
		{"a star", []option{with("If-None-Match", `*`)}, 304},
		{"another tag", []option{with("If-None-Match", `"abcd"`)}, 200},
		{"the tag inside another", []option{with("If-None-Match", `"x,"abc"`)}, 200},
		{"the tag without quotes", []option{with("If-None-Match", `abc`)}, 200},
		{"an open quote", []option{with("If-None-Match", `"abc`)}, 200},
		{"an empty list", []option{with("If-None-Match", ``)}, 200},
		{"the same second", []option{with("If-Modified-Since", at(0))}, 304},
		{"later", []option{with("If-Modified-Since", at(time.Hour))}, 304},
		{"earlier", []option{with("If-Modified-Since", at(-time.Second))}, 200},
		{"no date", []option{with("If-Modified-Since", "yesterday")}, 200},
		{"the tag goes before the date", []option{with("If-None-Match", `"x"`), with("If-Modified-Since", at(time.Hour))}, 200},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			w := b.send("GET", "/v2/catalog", "", test.options...)
			want := string(document().Body)
			if test.status == 304 {
				want = ""
			} else {
				object(t, w)
			}
			if w.Code != test.status || w.Body.String() != want {
				t.Errorf("%d %q, want %d %q", w.Code, w.Body, test.status, want)
			}
			for header, want := range map[string]string{
				"ETag": `"abc"`, "Last-Modified": at(0), "Cache-Control": "private, no-cache", "X-Broker-API-Request-Identity": "req-1",
			} {
				if got := w.Header().Get(header); got != want {
					t.Errorf("%s = %q, want %q", header, got, want)
				}
			}
		})
	}
}

func TestEachClientHasItsOwnCatalog(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *Options) {
		o.Catalog = fakeCatalog(func(_ context.Context, client string) (catalog.Document, error) {
			return catalog.Document{Body: []byte(`{"services":[],"of":"` + client + `"}`), ETag: `"e"`}, nil
		})
	})
	for username, client := range map[string]string{"a": "alpha", "b": "beta"} {
		if got := object(t, b.send("GET", "/v2/catalog", "", as(username, "p"+username)))["of"]; got != client {
			t.Errorf("%s got the catalog of %v, want %s", username, got, client)
		}
	}
}

func TestNoCatalogIsAnswered503(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *Options) {
		o.Catalog = fakeCatalog(func(context.Context, string) (catalog.Document, error) {
			return catalog.Document{}, fmt.Errorf("catalog of alpha: %w", errors.Join(broker.ErrNoCatalog, errors.New("S3CRET")))
		})
	})
	w := b.send("GET", "/v2/catalog", "")
	described(t, w, 503, "again")
	if w.Header().Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
}
