package api

import (
	"log/slog"
	"net"
	"net/http"
	"net/netip"
)

// standing is the body of /healthz and /readyz.
type standing struct {
	Status string `json:"status"`
	// Reason names the part that is not ready.
	Reason string `json:"reason,omitempty"`
}

// reads refuses everything but GET and HEAD, which load balancers like to use.
func reads(e *exchange, verb string) error {
	e.route.verb = verb
	if e.request.Method != http.MethodGet && e.request.Method != http.MethodHead {
		return methodNotAllowed(http.MethodGet, http.MethodHead)
	}
	return nil
}

// health says that the process lives. It stays out of the log, because somebody asks every few seconds.
func (h *handler) health(e *exchange) (answer, error) {
	if err := reads(e, "health"); err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK, outcome: "ok", level: slog.LevelDebug, body: standing{Status: "ok"}}, nil
}

// readiness says whether the process can serve.
func (h *handler) readiness(e *exchange) (answer, error) {
	if err := reads(e, "ready"); err != nil {
		return answer{}, err
	}
	ctx, cancel := h.budget(e)
	defer cancel()
	if h.Ready != nil {
		if err := h.Ready(ctx); err != nil {
			return answer{status: http.StatusServiceUnavailable, outcome: "not ready", header: retryAfter(5),
				body: standing{Status: "not ready", Reason: err.Error()}}, nil
		}
	}
	return answer{status: http.StatusOK, outcome: "ok", level: slog.LevelDebug, body: standing{Status: "ok"}}, nil
}

// metrics lets those read the metrics who know a password, and where none is configured those on this machine.
func (h *handler) metrics(e *exchange) (answer, error) {
	if h.Metrics == nil {
		return answer{}, h.notFound(e)
	}
	if err := reads(e, "metrics"); err != nil {
		return answer{}, err
	}
	if len(h.MetricsCredentials) == 0 && !local(e.request) {
		return answer{}, forbidden("Metrics are for this machine only. Configure metrics.credentials to read them from elsewhere.")
	}
	if len(h.MetricsCredentials) > 0 {
		if _, err := h.scrapers.admitted(e.request, "metrics"); err != nil {
			return answer{}, err
		}
	}
	return answer{delegate: h.Metrics, outcome: "ok", level: slog.LevelDebug}, nil
}

// local reports whether the request comes from this machine itself. A proxy here that forwards others' requests gives
// itself away by its headers.
func local(r *http.Request) bool {
	for _, name := range [...]string{"Forwarded", "X-Forwarded-For", "X-Real-Ip", "Via"} {
		if r.Header.Get(name) != "" {
			return false
		}
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.IsLoopback()
}
