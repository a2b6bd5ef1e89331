package api

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// The border's own share of a request: checks, decoding, encoding, the log line.
func BenchmarkHandler(b *testing.B) {
	handler := newBench(b, func(o *Options) { o.Logger = slog.New(slog.DiscardHandler) }).handler
	for _, bench := range []struct{ name, method, target, body string }{
		{"provision", http.MethodPut, instanceURL + asynchronous, goodInstance},
		{"poll", http.MethodGet, instanceURL + "/last_operation?operation=create-1", ""},
		{"catalog", http.MethodGet, "/v2/catalog", ""},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r := httptest.NewRequest(bench.method, bench.target, strings.NewReader(bench.body))
				r.SetBasicAuth("a", "pa")
				r.Header.Set("X-Broker-API-Version", "2.17")
				w := httptest.NewRecorder()
				if handler.ServeHTTP(w, r); w.Code >= 400 {
					b.Fatal(w.Code)
				}
			}
		})
	}
}
