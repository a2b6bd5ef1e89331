package config_test

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-broker/ferry/internal/config"
)

// certificate returns a self-signed certificate in PEM form.
func certificate(t *testing.T) string {
	t.Helper()
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)}
	der, err := x509.CreateCertificate(nil, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// variant returns the minimal text with one part replaced.
func variant(t *testing.T, old, replacement string) string {
	t.Helper()
	if !strings.Contains(minimal, old) {
		t.Fatalf("%q is not in the minimal text", old)
	}
	return strings.Replace(minimal, old, replacement, 1)
}

const (
	credPath   = "clients[0].credentials[0]"
	cfPath     = "clients[0].cloud_foundry"
	login      = "client_id: ferry, client_secret: s"
	knownAtTop = "clients, polling, operations, limits, metrics"
	rotatable1 = "clients[0].catalog.rotatable[1]"
	notAPlan   = ": must be the name of an offering, or of one plan in the form offering/plan (line 7)"
	notAHash   = ": must be a bcrypt hash, as `htpasswd -nBC 10 NAME` prints it after the colon (line 5)"
	notYAML    = "ferry.yaml: is not valid YAML; look there, and just above, for wrong indentation, a tab, " +
		"missing quotes (${…} between braces needs them) or an unknown anchor"
	notAReference = ": looks like a reference but is none; write ${env:NAME} or ${file:PATH} and nothing beside it, " +
		"or put the text into a file if it is meant as it stands (line 5)"
	notAMapping = "must be a mapping, that is lines of the form key: value; known keys here are "
)

// refused is a text and the one line that its fault is to read.
type refused struct{ text, want string }

func checkRefused(t *testing.T, cases map[string]refused) {
	t.Helper()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := parse(c.text, world{
				env:   map[string]string{"EMPTY": "", "BYTES": "hunter2"},
				files: map[string]string{"/text": "hunter2", "/newline": "\n"},
			})
			if err == nil {
				t.Fatal("no fault")
			}
			if diff := cmp.Diff(c.want, err.Error()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestFaultsOfTheWholeText(t *testing.T) {
	t.Parallel()
	checkRefused(t, map[string]refused{
		"empty":                     {"", "ferry.yaml: is empty; at least clients: is needed"},
		"only a comment":            {"# nothing\n", "ferry.yaml: is empty; at least clients: is needed"},
		"only null":                 {"~", "ferry.yaml: is empty; at least clients: is needed"},
		"only a header":             {"---\n", "ferry.yaml: is empty; at least clients: is needed"},
		"a list":                    {"- a", "ferry.yaml: " + notAMapping + knownAtTop + " (line 1)"},
		"a word":                    {"hunter2", "ferry.yaml: " + notAMapping + knownAtTop + " (line 1)"},
		"two documents":             {minimal + "---\nx: 1\n", "ferry.yaml: holds several documents; keep one and remove the lines --- (line 7)"},
		"no client":                 {"clients: []", "clients: is missing; at least one client is needed (line 1)"},
		"clients left out":          {"polling: {first: 1s}", "clients: is missing; at least one client is needed (line 1)"},
		"clients as a mapping":      {"clients: {a: b}", "clients: must be a list, each element of it beginning with a dash (line 1)"},
		"a client that is text":     {"clients: [hunter2]", "clients[0]: " + notAMapping + "name, credentials, cloud_foundry, catalog, quirks, catalog_refresh, concurrent_requests (line 1)"},
		"indentation":               {"clients:\n  - name: a\n bad: hunter2\n", notYAML + " (line 3)"},
		"a secret that is an alias": {variant(t, "password: pa", "password: *hunter2"), notYAML + " (line 5)"},
		"a second document broken":  {minimal + "---\n\t{hunter2", notYAML + " (line 9)"},
	})
}

func TestFaultsOfKeys(t *testing.T) {
	t.Parallel()
	checkRefused(t, map[string]refused{
		"unknown key at the top":       {minimal + "limit: {}", "limit: is an unknown key; did you mean limits? (line 7)"},
		"unknown key, nothing near":    {minimal + "colour: red", "colour: is an unknown key; known here are " + knownAtTop + " (line 7)"},
		"unknown key in a section":     {minimal + "polling: {frist: 1s}", "polling.frist: is an unknown key; did you mean first? (line 7)"},
		"unknown key in a client":      {variant(t, "name: a", "name: a\n    catalogRefresh: 5m"), "clients[0].catalogRefresh: is an unknown key; did you mean catalog_refresh? (line 4)"},
		"unknown key in a login":       {variant(t, "org: ferry", "org: ferry, skip-tls-verify: true"), cfPath + ": holds an unknown key; did you mean skip_tls_verify? (line 6)"},
		"unknown key of a later time":  {minimal + "    catalog: {hidden: [a]}", "clients[0].catalog.hidden: is an unknown key; known here are ids, rotatable (line 7)"},
		"an unknown key of any length": {minimal + strings.Repeat("x", 41) + ": 1", "ferry.yaml: holds an unknown key; known here are " + knownAtTop + " (line 7)"},
		"a merge key":                  {minimal + "<<: {}", "ferry.yaml: holds an unknown key; known here are " + knownAtTop + " (line 7)"},
		"a key that is a list":         {minimal + "? [hunter2]\n: 1", "ferry.yaml: holds an unknown key; known here are " + knownAtTop + " (line 7)"},
		"a key twice":                  {minimal + "polling: {}\npolling: {}", "polling: is here twice, first in line 7; keep one (line 8)"},
		"a secret twice":               {variant(t, "password: pa", "password: hunter2, password: hunter2"), credPath + ".password: is here twice, first in line 5; keep one (line 5)"},
		"a password cut by its comma":  {variant(t, "password: pa", "password: pa,hunter2"), credPath + ": holds an unknown key; known here are username, password, password_hash (line 5)"},
	})
}

func TestFaultsOfClientsAndCredentials(t *testing.T) {
	t.Parallel()
	checkRefused(t, map[string]refused{
		"no name":                     {variant(t, "name: a", "catalog:"), "clients[0].name: is missing (line 3)"},
		"a name that is too long":     {variant(t, "name: a", "name: "+strings.Repeat("a", 41)), "clients[0].name: must be 1 to 40 characters, each of them a-z, 0-9 or - (line 3)"},
		"a name in capitals":          {variant(t, "name: a", "name: A"), "clients[0].name: must be 1 to 40 characters, each of them a-z, 0-9 or - (line 3)"},
		"a name with a line end":      {variant(t, "name: a", `name: "a\n"`), "clients[0].name: must be 1 to 40 characters, each of them a-z, 0-9 or - (line 3)"},
		"a name that is a number":     {variant(t, "name: a", "name: 7"), "clients[0].name: must be text; put it in quotes (line 3)"},
		"no credentials":              {variant(t, "- {username: a, password: pa}", ""), "clients[0].credentials: is missing; give at least one username with its password (line 3)"},
		"no username":                 {variant(t, "username: a, ", ""), credPath + ".username: is missing (line 5)"},
		"a username with a colon":     {variant(t, "username: a", "username: a:b"), credPath + ".username: must not hold a colon; HTTP Basic ends the username there (line 5)"},
		"no password":                 {variant(t, ", password: pa", ""), credPath + ": needs one of password and password_hash, not both (line 5)"},
		"an empty password":           {variant(t, "password: pa", `password: ""`), credPath + ": needs one of password and password_hash, not both (line 5)"},
		"both passwords":              {variant(t, "password: pa", "password: hunter2, password_hash: "+hash), credPath + ": needs one of password and password_hash, not both (line 5)"},
		"a password that is a number": {variant(t, "password: pa", "password: 12345"), credPath + ".password: must be text; put it in quotes (line 5)"},
		"a password that is a list":   {variant(t, "password: pa", "password: [hunter2]"), credPath + ".password: must be a single value, neither a list nor a mapping (line 5)"},
		"a hash that is none":         {variant(t, "password: pa", "password_hash: hunter2"), credPath + ".password_hash" + notAHash},
		"a hash with its user":        {variant(t, "password: pa", "password_hash: a:"+hash), credPath + ".password_hash" + notAHash},
		"a hash cut off":              {variant(t, "password: pa", "password_hash: "+hash[:59]), credPath + ".password_hash" + notAHash},
		"a hash with a blank":         {variant(t, "password: pa", "password_hash: "+"'"+hash[:59]+" '"), credPath + ".password_hash" + notAHash},
		"a hash that takes seconds":   {variant(t, "password: pa", "password_hash: "+strings.Replace(hash, "$04$", "$15$", 1)), credPath + ".password_hash: has the cost 15, and one check would take seconds; hash the password again with at most 14, as `htpasswd -nBC 10 NAME` does (line 5)"},
		"a hash of cost 99":           {variant(t, "password: pa", "password_hash: "+strings.Replace(hash, "$04$", "$99$", 1)), credPath + ".password_hash" + notAHash},
	})
}

func TestFaultsOfCloudFoundry(t *testing.T) {
	t.Parallel()
	checkRefused(t, map[string]refused{
		"no Cloud Foundry":            {variant(t, "cloud_foundry: {api: http://127.0.0.1:8081/, org: ferry, "+login+"}", ""), "clients[0].cloud_foundry: is missing; it needs api, org and a login (line 3)"},
		"no api":                      {variant(t, "api: http://127.0.0.1:8081/, ", ""), cfPath + ".api: is missing (line 6)"},
		"an api without scheme":       {variant(t, "http://127.0.0.1:8081/", "api.example.org"), cfPath + ".api: must be an address like https://api.cf.example.org (line 6)"},
		"an api without host":         {variant(t, "http://127.0.0.1:8081/", "https://:443"), cfPath + ".api: must be an address like https://api.cf.example.org (line 6)"},
		"an api of another scheme":    {variant(t, "http://127.0.0.1:8081/", "ftp://example.org"), cfPath + ".api: must be an address like https://api.cf.example.org (line 6)"},
		"an api that does not parse":  {variant(t, "http://127.0.0.1:8081/", `"https://u:hunter2@h:x%"`), cfPath + ".api: must be an address like https://api.cf.example.org (line 6)"},
		"an api with a password":      {variant(t, "http://127.0.0.1:8081/", "https://u:hunter2@example.org"), cfPath + ".api: must not hold a user or password; use client_id or username (line 6)"},
		"an api with a query":         {variant(t, "http://127.0.0.1:8081/", "https://example.org?x=hunter2"), cfPath + ".api: must end with the host or a path; remove what begins with ? or # (line 6)"},
		"former addresses as text":    {variant(t, login, login+", former_apis: https://example.org"), cfPath + ".former_apis: must be a list, each element of it beginning with a dash (line 6)"},
		"a former address that isn't": {variant(t, login, login+`, former_apis: ["https://a.example.org", hunter2]`), cfPath + ".former_apis[1]: must be an address like https://api.cf.example.org (line 6)"},
		"no org":                      {variant(t, "org: ferry, ", ""), cfPath + ".org: is missing (line 6)"},
		"no login":                    {variant(t, ", "+login, ""), cfPath + ": needs one login: either client_id and client_secret, or username and password (line 6)"},
		"two logins":                  {variant(t, login, login+", username: u, password: hunter2"), cfPath + ": needs one login: either client_id and client_secret, or username and password (line 6)"},
		"a client_id alone":           {variant(t, login, "client_id: ferry"), cfPath + ".client_secret: is missing (line 6)"},
		"a client_secret alone":       {variant(t, login, "client_secret: hunter2"), cfPath + ".client_id: is missing (line 6)"},
		"a username alone":            {variant(t, login, "username: u"), cfPath + ".password: is missing (line 6)"},
		"a password alone":            {variant(t, login, "password: hunter2"), cfPath + ".username: is missing (line 6)"},
		"a CA that is not there":      {variant(t, login, login+", ca_file: /none"), cfPath + ".ca_file: the file /none does not exist (line 6)"},
		"a CA that is no certificate": {variant(t, login, login+", ca_file: /text"), cfPath + ".ca_file: the file /text holds no certificate in PEM form (-----BEGIN CERTIFICATE-----) (line 6)"},
		"skip_tls_verify with yes":    {variant(t, login, login+", skip_tls_verify: yes"), cfPath + ".skip_tls_verify: must be true or false (line 6)"},
		"skip_tls_verify in quotes":   {variant(t, login, login+`, skip_tls_verify: "true"`), cfPath + ".skip_tls_verify: must be true or false, without quotes (line 6)"},
		"skip_tls_verify in capitals": {variant(t, login, login+", skip_tls_verify: TRUE"), cfPath + ".skip_tls_verify: must be true or false (line 6)"},
	})
}

func TestFaultsOfValues(t *testing.T) {
	t.Parallel()
	checkRefused(t, map[string]refused{
		"ids of a third kind":          {minimal + "    catalog: {ids: both}", "clients[0].catalog.ids: must be broker or cloud_foundry (line 7)"},
		"ids that are a number":        {minimal + "    catalog: {ids: 1}", "clients[0].catalog.ids: must be broker or cloud_foundry (line 7)"},
		"rotatable that is text":       {minimal + "    catalog: {rotatable: a}", "clients[0].catalog.rotatable: must be a list, each element of it beginning with a dash (line 7)"},
		"rotatable that is empty text": {minimal + `    catalog: {rotatable: [a, ""]}`, rotatable1 + notAPlan},
		"rotatable that is null":       {minimal + "    catalog: {rotatable: [a, ~]}", rotatable1 + ": must be text; put it in quotes (line 7)"},
		"rotatable that is a number":   {minimal + "    catalog: {rotatable: [a, 7]}", rotatable1 + ": must be text; put it in quotes (line 7)"},
		"rotatable that is a mapping":  {minimal + "    catalog: {rotatable: [a, {a: b}]}", rotatable1 + ": must be a single value, neither a list nor a mapping (line 7)"},
		"rotatable with two slashes":   {minimal + "    catalog: {rotatable: [a, b/c/d]}", rotatable1 + notAPlan},
		"rotatable without offering":   {minimal + "    catalog: {rotatable: [a, /b]}", rotatable1 + notAPlan},
		"rotatable without plan":       {minimal + "    catalog: {rotatable: [a, b/]}", rotatable1 + notAPlan},
		"rotatable with blanks around": {minimal + `    catalog: {rotatable: [a, "b "]}`, rotatable1 + notAPlan},
		"rotatable twice":              {minimal + "    catalog: {rotatable: [a/b, a/b]}", rotatable1 + ": says the same as clients[0].catalog.rotatable[0]; keep one (line 7)"},
		"a version status beside both": {minimal + "    quirks: {missing_version: 200}", "clients[0].quirks.missing_version: must be 400 or 412 (line 7)"},
		"a delete status beside both":  {minimal + "    quirks: {finished_delete: 404}", "clients[0].quirks.finished_delete: must be 200 or 410 (line 7)"},
		"a status in quotes":           {minimal + `    quirks: {finished_delete: "410"}`, "clients[0].quirks.finished_delete: must be a whole number, without quotes (line 7)"},
		"a duration without unit":      {minimal + "polling: {first: 2}", "polling.first: must be a duration with its unit, as in 500ms, 2s, 5m or 168h (line 7)"},
		"a duration in days":           {minimal + "operations: {keep: 8d}", "operations.keep: must be a duration with its unit, as in 500ms, 2s, 5m or 168h (line 7)"},
		"a duration of nothing":        {minimal + "operations: {settle_after: 0s}", "operations.settle_after: must be longer than nothing, as in 500ms, 2s, 5m or 168h (line 7)"},
		"a negative duration":          {minimal + "    catalog_refresh: -5m", "clients[0].catalog_refresh: must be longer than nothing, as in 500ms, 2s, 5m or 168h (line 7)"},
		"first above max":              {minimal + "polling: {first: 2m}", "polling.first: is above polling.max; lower it or raise that (line 7)"},
		"a limit of nothing":           {minimal + "limits: {request_bytes: 0}", "limits.request_bytes: must be a whole number above 0, in plain digits (line 7)"},
		"a limit in hex":               {minimal + "limits: {request_bytes: 0x10}", "limits.request_bytes: must be a whole number above 0, in plain digits (line 7)"},
		"a limit with a unit":          {minimal + "limits: {request_bytes: 1MB}", "limits.request_bytes: must be a whole number (line 7)"},
		"a limit with a fraction":      {minimal + "limits: {request_bytes: 1.5}", "limits.request_bytes: must be a whole number above 0, in plain digits (line 7)"},
		"a limit with an exponent":     {minimal + "limits: {request_bytes: 1e3}", "limits.request_bytes: must be a whole number above 0, in plain digits (line 7)"},
		"a limit of 31 digits":         {minimal + "limits: {request_bytes: 1e30}", "limits.request_bytes: must not be above 1073741824 (line 7)"},
		"a limit without end":          {minimal + "limits: {request_bytes: .inf}", "limits.request_bytes: must be a whole number above 0, in plain digits (line 7)"},
		"max for ever":                 {minimal + "polling: {max: 1000000h}", "polling.max: must not be longer than 1h, as in 500ms, 2s or 5m (line 7)"},
		"first for ever":               {minimal + "polling: {first: 2000000h}", "polling.first: must not be longer than 1h, as in 500ms, 2s or 5m (line 7)"},
		"a max of nanoseconds":         {minimal + "polling: {max: 1ns}", "polling.max: must not be shorter than 1ms, as in 500ms, 2s, 5m or 168h (line 7)"},
		"a deadline in centuries":      {minimal + "operations: {deadline: 2562047h}", "operations.deadline: must not be longer than 8760h, as in 500ms, 2s or 5m (line 7)"},
		"a deadline beyond numbers":    {minimal + "operations: {deadline: 9999999999h}", "operations.deadline: must not be longer than 8760h, as in 500ms, 2s or 5m (line 7)"},
		"a duration of two units":      {minimal + "operations: {deadline: 99999999999h1.5m}", "operations.deadline: must not be longer than 8760h, as in 500ms, 2s or 5m (line 7)"},
		"a duration with a blank":      {minimal + `operations: {deadline: "1 h"}`, "operations.deadline: must be a duration with its unit, as in 500ms, 2s, 5m or 168h (line 7)"},
		"keep for ever":                {minimal + "operations: {keep: 8761h}", "operations.keep: must not be longer than 8760h, as in 500ms, 2s or 5m (line 7)"},
		"settle_after for ever":        {minimal + "operations: {settle_after: 100000h}", "operations.settle_after: must not be longer than 8760h, as in 500ms, 2s or 5m (line 7)"},
		"a budget of days":             {minimal + "operations: {request_budget: 48h}", "operations.request_budget: must not be longer than 1h, as in 500ms, 2s or 5m (line 7)"},
		"a refresh that never comes":   {minimal + "    catalog_refresh: 1000000h", "clients[0].catalog_refresh: must not be longer than 8760h, as in 500ms, 2s or 5m (line 7)"},
		"a refresh without a pause":    {minimal + "    catalog_refresh: 1us", "clients[0].catalog_refresh: must not be shorter than 1ms, as in 500ms, 2s, 5m or 168h (line 7)"},
		"a body without bound":         {minimal + "limits: {request_bytes: 9223372036854775807}", "limits.request_bytes: must not be above 1073741824 (line 7)"},
		"parameters without bound":     {minimal + "limits: {parameters_bytes: 2000000000}", "limits.parameters_bytes: must not be above 1073741824 (line 7)"},
		"requests below zero":          {minimal + "limits: {concurrent_requests: -1}", "limits.concurrent_requests: must be a whole number above 0, in plain digits (line 7)"},
		"requests without bound":       {minimal + "limits: {concurrent_requests: 1000000000}", "limits.concurrent_requests: must not be above 100000 (line 7)"},
		"a client without requests":    {minimal + "    concurrent_requests: 0", "clients[0].concurrent_requests: must be a whole number above 0, in plain digits (line 7)"},
		"a client above all":           {minimal + "    concurrent_requests: 257", "clients[0].concurrent_requests: is above limits.concurrent_requests; lower it or raise that (line 7)"},
		"a section that is text":       {minimal + "limits: hunter2", "limits: " + notAMapping + "request_bytes, parameters_bytes, concurrent_requests (line 7)"},
		"metrics without password":     {minimal + "metrics: {credentials: [{username: m}]}", "metrics.credentials[0]: needs one of password and password_hash, not both (line 7)"},
	})
}

func TestFaultsOfReferences(t *testing.T) {
	t.Parallel()
	checkRefused(t, map[string]refused{
		"a variable that is not set": {variant(t, "password: pa", "password: '${env:NONE}'"), credPath + ".password: the environment variable NONE is not set (line 5)"},
		"a variable that is empty":   {variant(t, "password: pa", "password: '${env:EMPTY}'"), credPath + ".password: the environment variable EMPTY is empty (line 5)"},
		"a file that is not there":   {variant(t, "password: pa", "password: '${file:/none}'"), credPath + ".password: the file /none does not exist (line 5)"},
		"a file that is forbidden":   {variant(t, "password: pa", "password: '${file:/forbidden}'"), credPath + ".password: the file /forbidden may not be read by this process (line 5)"},
		"a file that breaks":         {variant(t, "password: pa", "password: '${file:/broken}'"), credPath + ".password: the file /broken cannot be read (line 5)"},
		"a file that is empty":       {variant(t, "password: pa", "password: '${file:/newline}'"), credPath + ".password: the file /newline is empty (line 5)"},
		"a reference with more text": {variant(t, "password: pa", "password: 'x${env:EMPTY}'"), credPath + ".password" + notAReference},
		"a reference without kind":   {variant(t, "password: pa", "password: '${hunter2}'"), credPath + ".password" + notAReference},
		"a bad value by reference":   {minimal + "limits: {request_bytes: '${env:BYTES}'}", "limits.request_bytes: must be a whole number above 0, in plain digits (line 7)"},
	})
}

func TestAllFaultsAreReportedAtOnce(t *testing.T) {
	t.Parallel()
	got, err := parse(`
clients:
  - name: a
    credentials: [{username: shared, password: x}, {username: shared, password: y}]
    cloud_foundry: {api: ftp://x, org: o, client_id: i, client_secret: "${env:NONE}"}
  - name: a
    credentials: [{username: b, password: x}, {username: shared, password: z}]
    cloud_foundry: {api: http://x, org: o, username: u, password: p, client_secret: "${env:NONE}"}
  -
polling: {max: never}
nonsense: 1
`, world{})
	var faults *config.Faults
	if !errors.As(err, &faults) {
		t.Fatalf("%T %v", err, err)
	}
	paths := make([]string, len(faults.List))
	for i, fault := range faults.List {
		paths[i] = fault.Path
	}
	if diff := cmp.Diff([]string{
		"nonsense", "clients[0].cloud_foundry.api", "clients[0].cloud_foundry.client_secret",
		"clients[1].cloud_foundry", "clients[1].cloud_foundry.client_secret",
		"clients[1].name", "clients[1].credentials", "clients[2]", "polling.max",
	}, paths); diff != "" {
		t.Errorf("(-want +got):\n%s\n%v", diff, err)
	}
	if lines := strings.Split(err.Error(), "\n"); len(lines) != len(paths) || faults.File != "ferry.yaml" || got.Clients != nil {
		t.Errorf("file %q, %d lines for %d faults, configuration %v", faults.File, len(lines), len(paths), got)
	}
	for _, line := range []string{
		"clients[1].name: is the name of clients[0] as well; give each client its own (line 6)",
		"clients[1].credentials: a username here is also one of clients[0]; it tells clients apart, so keep it in one of them (line 7)",
	} {
		if !strings.Contains(err.Error(), line) {
			t.Errorf("missing: %s\ngot:\n%v", line, err)
		}
	}
}

// secret is no word that a fault could hold by chance.
const secret = "zq9vXk7"

// whole holds the marked secret wherever one belongs; each line is then broken in many ways.
const whole = `clients:
  - name: a
    credentials:
      - username: a
        password: zq9vXk7
      - {username: b, password: zq9vXk7}
      - username: c
        password_hash: zq9vXk7
    cloud_foundry:
      api: https://u:zq9vXk7@example.org/zq9vXk7?zq9vXk7
      org: ferry
      client_id: ferry
      client_secret: zq9vXk7
      username: u
      password: ${file:/secret}
metrics:
  credentials:
    - username: m
      password_hash: ${env:SECRET}
`

func TestFaultsNeverHoldSecrets(t *testing.T) {
	t.Parallel()
	w := world{env: map[string]string{"SECRET": secret}, files: map[string]string{"/secret": secret}}
	breakages := []struct{ old, replacement string }{
		{secret, secret}, {secret, "x," + secret}, {secret, "*" + secret}, {secret, "&" + secret}, {secret, "!" + secret + " x"}, {secret, "!!int " + secret},
		{secret, "!!binary " + secret}, {secret, "[" + secret + "]"}, {secret, "{" + secret + "}"}, {secret, "{" + secret + ": 1}"}, {secret, "@" + secret},
		{secret, "`" + secret}, {secret, "%" + secret}, {secret, `"` + secret}, {secret, `"\` + secret + `"`}, {secret, "'" + secret}, {secret, "a: " + secret},
		{secret, "|" + secret}, {secret, "> " + secret}, {secret, secret + "\x00"}, {secret, secret + "\xff"}, {secret, "x\n" + secret}, {secret, "\n- " + secret},
		{secret, "${" + secret + "}"}, {secret, "${env: " + secret + "}"}, {secret, "${env:" + secret}, {secret, "x\t: " + secret}, {secret, "? " + secret}, {secret, "- " + secret},
		{secret, "}" + secret}, {secret, "]" + secret}, {secret, "<<: *" + secret}, {secret, "---\n" + secret}, {secret, "1, ? " + secret + ", b: c"},
		{": ", ":"}, {": ", " "}, {": ", "\t"}, {"- ", "-"}, {"password", "pasword"}, {"password: ", "password:\n"}, {"client_secret: ", "client_secret = "}, {"      ", "\t"}, {"      ", " "},
	}
	broken := 0
	for _, b := range breakages {
		for at := 0; ; {
			found := strings.Index(whole[at:], b.old)
			if found < 0 {
				break
			}
			at += found
			text := whole[:at] + b.replacement + whole[at+len(b.old):]
			at += len(b.old)
			_, err := parse(text, w)
			if err == nil {
				continue
			}
			broken++
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%q for %q shows the secret:\n%v\nof\n%s", b.replacement, b.old, err, text)
			}
		}
	}
	if broken < 200 {
		t.Errorf("only %d texts were refused", broken)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(whole)
	f.Add(minimal)
	f.Add("a: &a [*a]")
	f.Add("clients: &c [{name: a, credentials: *c}]")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := parse(text, world{})
		if (err == nil) != (len(c.Clients) > 0) {
			t.Errorf("%d clients and %v", len(c.Clients), err)
		}
		if err != nil && err.Error() == "" {
			t.Error("a fault without a word")
		}
	})
}
