package ccapi

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// How long texts of others may be.
const (
	maxUserText = 2000
	maxLogText  = 500
)

// What must not reach a platform's user: where our Cloud Foundry and its brokers live, and anything that looks like a
// token. A host has three labels, a port or a familiar ending, so that "storage.size" in a broker's sentence stays.
var (
	headerText  = regexp.MustCompile(`(?i)\b(basic|bearer) +[\w+/=.~-]{16,}`)
	tokenText   = regexp.MustCompile(`\beyJ[\w-]+\.[\w-]+\.[\w-]*`)
	urlText     = regexp.MustCompile(`(?i)\b[a-z][a-z0-9+.-]*://[^\s"'<>]+`)
	hostText    = regexp.MustCompile(`(?i)\b(?:[a-z0-9-]+\.){2,}[a-z][a-z0-9-]+(?::\d+)?\b|\b[a-z0-9-]+(?:\.[a-z0-9-]+)*\.[a-z]+:\d+\b|\blocalhost(?::\d+)?\b|\b[a-z0-9-]+\.(?:internal|local|svc|com|net|org|io|cloud)\b`)
	addressText = regexp.MustCompile(`\[[0-9a-fA-F:]*:[0-9a-fA-F:.%]*\](?::\d+)?|\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b`)
)

// brokersPrefix is what Cloud Foundry puts before a backing broker's word. It is left out: where the platform is a
// Cloud Foundry too, it does the same with ours.
const brokersPrefix = "Service broker error: "

// ForUsers makes a text of Cloud Foundry or of a backing broker fit for users: one line without addresses, and not
// endless.
func (c *Client) ForUsers(text string) string {
	text = c.withoutSecrets(strings.ReplaceAll(text, brokersPrefix, ""))
	for _, pattern := range []*regexp.Regexp{urlText, hostText, addressText} {
		text = pattern.ReplaceAllString(text, "[address]")
	}
	return clip(oneLine(text), maxUserText)
}

// ForLog makes such a text fit for a log. Cloud Foundry quotes whole answers of brokers, which may hold credentials;
// that part is cut off.
func (c *Client) ForLog(text string) string {
	for _, quote := range []string{", Body: ", "broker returned '"} {
		text, _, _ = strings.Cut(text, quote)
	}
	return clip(oneLine(c.withoutSecrets(text)), maxLogText)
}

func (c *Client) withoutSecrets(text string) string {
	for _, secret := range c.secrets {
		text = strings.ReplaceAll(text, secret, "[secret]")
	}
	text = headerText.ReplaceAllString(text, "$1 [secret]")
	return tokenText.ReplaceAllString(text, "[token]")
}

// secretTexts returns what is searched for in texts. A secret too short to be one would tear ordinary words out of
// them.
func secretTexts(secrets ...string) []string {
	var long []string
	for _, s := range secrets {
		if len(s) >= 8 {
			long = append(long, s)
		}
	}
	return long
}

func oneLine(text string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == utf8.RuneError {
			return ' '
		}
		return r
	}, text))
}

// clip cuts text to at most n bytes, between characters.
func clip(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + "…"
}
