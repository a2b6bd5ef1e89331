package cf

import (
	"crypto/tls"
	"encoding/pem"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// TestOldTLSIsNotSpoken: a server, or somebody on the way, that offers nothing above
// TLS 1.1 hears neither a login nor a call, whichever way a certificate is trusted.
func TestOldTLSIsNotSpoken(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Config, []byte){
		"with a CA":    func(c *Config, ca []byte) { c.CA = ca },
		"trusting all": func(c *Config, _ []byte) { c.SkipTLSVerify = true },
	} {
		for version, want := range map[uint16]lifecycle.Reply{tls.VersionTLS11: lifecycle.ReplyBusy, tls.VersionTLS12: lifecycle.ReplyAccepted} {
			t.Run(name+", "+tls.VersionName(version), func(t *testing.T) {
				t.Parallel()
				s := newStub(t, accept)
				var heard atomic.Int64
				server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					heard.Add(1)
					s.ServeHTTP(w, r)
				}))
				server.TLS = &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: version}
				server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
				server.StartTLS()
				t.Cleanup(server.Close)
				s.uaa = server.URL
				ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
				b := s.backend(t, func(c *Config) { c.API = server.URL; change(c, ca) })
				answer, err := b.CreateInstance(t.Context(), testCall())
				if answer.Reply != want || (heard.Load() > 0) != (want == lifecycle.ReplyAccepted) {
					t.Errorf("answer %+v, %v after %d requests, want %s", answer, err, heard.Load(), want)
				}
			})
		}
	}
}
