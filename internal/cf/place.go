package cf

import (
	"context"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/ferry-broker/ferry/internal/broker"
)

// Place returns where this backend looks and calls. The address is in one form however
// it was configured: scheme and host in small letters, no port that the scheme implies,
// no slash at the end. It takes a call until the org is known.
func (b *Backend) Place(ctx context.Context) (broker.Place, error) {
	org, err := b.org(ctx)
	if err != nil {
		return broker.Place{}, err
	}
	return broker.Place{API: b.home, OrgGUID: org}, nil
}

// Same implements broker.Finder. The org is the same when its GUID is, whatever it is
// called; the Cloud Foundry is when its address is the API's or one of FormerAPIs.
func (b *Backend) Same(recorded broker.Place) bool {
	api := canonicalAPI(recorded.API)
	return recorded.OrgGUID != "" && recorded.OrgGUID == b.places.orgGUID() &&
		(api == b.home || slices.Contains(b.formerly, api))
}

// canonicalAPI returns an address in the form of Place; what cannot be read comes back
// as it is.
func canonicalAPI(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return address
	}
	scheme, host, port := strings.ToLower(u.Scheme), strings.ToLower(u.Hostname()), u.Port()
	if port == map[string]string{"http": "80", "https": "443"}[scheme] {
		port = ""
	}
	switch {
	case port != "":
		host = net.JoinHostPort(host, port)
	case strings.Contains(host, ":"):
		host = "[" + host + "]"
	}
	return scheme + "://" + host + strings.TrimRight(u.EscapedPath(), "/")
}
