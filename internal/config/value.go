package config

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
)

// kind is a kind of scalar.
type kind struct {
	tags   []string // that YAML gives to such a value; nil: any
	demand string   // what a value of another kind must be
}

var (
	textKind    = kind{[]string{"!!str"}, "must be text; put it in quotes"}
	numberKind  = kind{[]string{"!!int", "!!float"}, "must be a whole number"}
	booleanKind = kind{[]string{"!!bool"}, "must be true or false"}
	anyKind     = kind{}
)

// scalar returns the value under key with its reference resolved. ok is false when it is absent, or of another kind, or
// its reference leads nowhere; both of the latter are reported. What a reference brings is of any kind.
func (o object) scalar(key string, kind kind) (value string, ok bool) {
	if !o.has(key) {
		return "", false
	}
	n := o.fields[key]
	if n.Kind != yaml.ScalarNode {
		o.fault(key, "must be a single value, neither a list nor a mapping")
		return "", false
	}
	value, problem := o.r.resolve(n.Value)
	if problem == "" && value == n.Value && kind.tags != nil && !slices.Contains(kind.tags, n.ShortTag()) {
		problem = kind.demand
		if n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0 {
			problem += ", without quotes"
		}
	}
	if problem != "" {
		o.fault(key, problem)
		return "", false
	}
	return value, true
}

var reference = regexp.MustCompile(`^\$\{(?:env:([A-Za-z_][A-Za-z0-9_]*)|file:([^{}]+))\}$`)

// resolve returns what value refers to, value itself when it is no reference.
func (r *reader) resolve(value string) (resolved, problem string) {
	looksLikeOne := strings.Contains(value, "${env:") || strings.Contains(value, "${file:") ||
		strings.HasPrefix(value, "${") && strings.HasSuffix(value, "}")
	if !looksLikeOne {
		return value, ""
	}
	found := reference.FindStringSubmatch(value)
	if found == nil {
		return "", "looks like a reference but is none; write ${env:NAME} or ${file:PATH} and nothing beside it, " +
			"or put the text into a file if it is meant as it stands"
	}
	if name := found[1]; name != "" {
		return r.variable(name)
	}
	content, problem := r.file(found[2])
	resolved = strings.TrimRight(string(content), "\r\n")
	if problem == "" && resolved == "" {
		problem = "the file " + found[2] + " is empty"
	}
	return resolved, problem
}

func (r *reader) variable(name string) (value, problem string) {
	value, found := r.lookupEnv(name)
	switch {
	case !found:
		problem = "the environment variable " + name + " is not set"
	case value == "":
		problem = "the environment variable " + name + " is empty"
	}
	return value, problem
}

// file reads a file; of its error only the kind is told.
func (r *reader) file(path string) (content []byte, problem string) {
	content, err := r.readFile(path)
	switch {
	case err == nil:
		return content, ""
	case errors.Is(err, fs.ErrNotExist):
		return nil, "the file " + path + " does not exist"
	case errors.Is(err, fs.ErrPermission):
		return nil, "the file " + path + " may not be read by this process"
	}
	return nil, "the file " + path + " cannot be read"
}

// required returns a text that must be there.
func (o object) required(key string) string {
	if !o.has(key) && !o.broken {
		o.fault(key, "is missing")
	}
	return o.optional(key)
}

// optional returns a text, "" when it is absent.
func (o object) optional(key string) string {
	value, _ := o.scalar(key, textKind)
	return value
}

// The longest durations. Above them a number is a slip of the pen, and some would do harm unseen: a poll that comes in
// a century, a time that no clock can hold.
const (
	shortest     = time.Millisecond
	longestWait  = time.Hour
	longestInAll = 365 * 24 * time.Hour
)

// durationForm is what time.ParseDuration reads, however long.
var durationForm = regexp.MustCompile(`^\+?(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`)

// duration returns a duration from shortest to longest.
func (o object) duration(key string, otherwise, longest time.Duration) time.Duration {
	value, ok := o.scalar(key, anyKind)
	if !ok {
		return otherwise
	}
	d, err := time.ParseDuration(value)
	if err != nil && durationForm.MatchString(value) {
		d, err = math.MaxInt64, nil // longer than time.Duration can hold
	}
	switch {
	case err != nil:
		o.fault(key, "must be a duration with its unit, as in 500ms, 2s, 5m or 168h")
	case d <= 0:
		o.fault(key, "must be longer than nothing, as in 500ms, 2s, 5m or 168h")
	case d < shortest:
		o.fault(key, "must not be shorter than 1ms, as in 500ms, 2s, 5m or 168h")
	case d > longest:
		o.fault(key, fmt.Sprintf("must not be longer than %.0fh, as in 500ms, 2s or 5m", longest.Hours()))
	default:
		return d
	}
	return otherwise
}

// The largest counts: beyond them a limit is none.
const (
	mostBytes    = 1 << 30
	mostRequests = 100_000
)

// count returns a whole number from 1 to most.
func (o object) count(key string, otherwise, most int64) int64 {
	value, ok := o.scalar(key, numberKind)
	if !ok {
		return otherwise
	}
	n, err := strconv.ParseInt(value, 10, 64)
	size, _ := strconv.ParseFloat(value, 64) // of a number that is too large for n, or written as 1e30
	switch {
	case n > most || size > float64(most):
		o.fault(key, fmt.Sprintf("must not be above %d", most))
	case err != nil || n <= 0:
		o.fault(key, "must be a whole number above 0, in plain digits")
	default:
		return n
	}
	return otherwise
}

// status returns an HTTP status that may be one of two.
func (o object) status(key string, usual, other int) int {
	value, ok := o.scalar(key, numberKind)
	switch {
	case !ok || value == strconv.Itoa(usual):
		return usual
	case value == strconv.Itoa(other):
		return other
	}
	o.fault(key, "must be "+strconv.Itoa(usual)+" or "+strconv.Itoa(other))
	return usual
}

// choice returns a word that may be one of two.
func (o object) choice(key, usual, other string) string {
	value, ok := o.scalar(key, anyKind)
	switch {
	case !ok || value == usual:
		return usual
	case value == other:
		return other
	}
	o.fault(key, "must be "+usual+" or "+other)
	return usual
}

func (o object) flag(key string) bool {
	value, ok := o.scalar(key, booleanKind)
	if ok && value != "true" && value != "false" {
		o.fault(key, "must be true or false")
	}
	return value == "true"
}

// url returns the required address of an API. It is not quoted in faults, as it may hold a password.
func (o object) url(key string) string {
	value := o.required(key)
	if value == "" {
		return ""
	}
	u, err := url.Parse(value)
	switch {
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "":
		o.fault(key, "must be an address like https://api.cf.example.org")
	case u.User != nil:
		o.fault(key, "must not hold a user or password; use client_id or username")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		o.fault(key, "must end with the host or a path; remove what begins with ? or #")
	}
	return strings.TrimRight(value, "/")
}

// urls reads a list of addresses, each as url demands it; nil when it is absent.
func (o object) urls(key string) []string {
	var addresses []string
	for _, item := range o.values(key) {
		if address := item.url(""); address != "" {
			addresses = append(addresses, address)
		}
	}
	return addresses
}

// certificates returns the optional path under key and the PEM text there.
func (o object) certificates(key string) (path string, pem []byte) {
	path = o.optional(key)
	if path == "" {
		return "", nil
	}
	pem, problem := o.r.file(path)
	if problem == "" && !x509.NewCertPool().AppendCertsFromPEM(pem) {
		problem = "the file " + path + " holds no certificate in PEM form (-----BEGIN CERTIFICATE-----)"
	}
	if problem != "" {
		o.fault(key, problem)
	}
	return path, pem
}

// planNames reads a list of offerings and plans by name, an element being "offering" or "offering/plan". Whether the
// marketplace has them is not known here: it changes while a configuration stays.
func (o object) planNames(key string) []string {
	var names []string
	first := map[string]string{}
	for _, item := range o.values(key) {
		before := len(o.r.faults)
		name := item.optional("")
		switch at, again := first[name]; {
		case len(o.r.faults) > before: // not even text
		case !isPlanName(name):
			item.fault("", "must be the name of an offering, or of one plan in the form offering/plan")
		case again:
			item.fault("", "says the same as "+at+"; keep one")
		default:
			first[name] = item.path
			names = append(names, name)
		}
	}
	return names
}

func isPlanName(name string) bool {
	offering, plan, both := strings.Cut(name, "/")
	if both && (plan == "" || strings.Contains(plan, "/")) {
		return false
	}
	return offering != "" && name == strings.TrimSpace(name)
}
