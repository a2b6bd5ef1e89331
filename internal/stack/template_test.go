package stack

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

const root = "../.."

// node is a part of the template. Short forms of CloudFormation's functions (!Ref x)
// are read as {"Ref": x}.
type node struct{ value any }

func readRoot(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func template(t *testing.T) node {
	t.Helper()
	var document yaml.Node
	if err := yaml.Unmarshal(readRoot(t, "template.yaml"), &document); err != nil {
		t.Fatal(err)
	}
	return node{plain(document.Content[0])}
}

// plain turns YAML into maps, slices and strings.
func plain(n *yaml.Node) any {
	var value any
	switch n.Kind {
	case yaml.AliasNode:
		return plain(n.Alias)
	case yaml.MappingNode:
		fields := map[string]any{}
		for i := 0; i < len(n.Content); i += 2 {
			fields[n.Content[i].Value] = plain(n.Content[i+1])
		}
		value = fields
	case yaml.SequenceNode:
		items := make([]any, 0, len(n.Content))
		for _, item := range n.Content {
			items = append(items, plain(item))
		}
		value = items
	default:
		value = n.Value
	}
	if function, short := strings.CutPrefix(n.Tag, "!"); short && !strings.HasPrefix(function, "!") && function != "" {
		return map[string]any{function: value}
	}
	return value
}

// at follows fields and indexes ("Properties.Events.Get", "Policies.0"); what is not
// there is nil.
func (n node) at(path string) node {
	for part := range strings.SplitSeq(path, ".") {
		switch value := n.value.(type) {
		case map[string]any:
			n = node{value[part]}
		case []any:
			index := -1
			if _, err := fmt.Sscan(part, &index); err != nil || index < 0 || index >= len(value) {
				return node{}
			}
			n = node{value[index]}
		default:
			return node{}
		}
	}
	return n
}

func (n node) String() string { return fmt.Sprint(n.value) }

func (n node) fields() map[string]any {
	fields, _ := n.value.(map[string]any)
	return fields
}

// ofType returns the resources of a type by their names.
func ofType(t *testing.T, kind string) map[string]node {
	t.Helper()
	found := map[string]node{}
	for name, value := range template(t).at("Resources").fields() {
		if r := (node{value}); r.at("Type").String() == kind {
			found[name] = r
		}
	}
	if len(found) == 0 {
		t.Fatalf("no %s in the template", kind)
	}
	return found
}

// walk calls visit for every value below n, with the path to it.
func walk(n any, path string, visit func(path string, value any)) {
	visit(path, n)
	switch value := n.(type) {
	case map[string]any:
		for name, v := range value {
			walk(v, path+"."+name, visit)
		}
	case []any:
		for i, v := range value {
			walk(v, fmt.Sprintf("%s.%d", path, i), visit)
		}
	}
}

// TestProperties holds what would go unnoticed until the day that it is needed.
func TestProperties(t *testing.T) {
	t.Parallel()
	resources := template(t).at("Resources")
	for path, want := range map[string]string{
		"Table.DeletionPolicy":                       "Retain",
		"Table.UpdateReplacePolicy":                  "Retain",
		"Table.Properties.BillingMode":               "PAY_PER_REQUEST",
		"Table.Properties.DeletionProtectionEnabled": "true",
		"Table.Properties.PointInTimeRecoverySpecification.PointInTimeRecoveryEnabled": "true",
		"Table.Properties.SSESpecification.SSEEnabled":                                 "true",
		"Table.Properties.TimeToLiveSpecification.Enabled":                             "true",
		"ConfigSecret.DeletionPolicy":                                                  "Retain",
		"Api.Properties.EndpointConfiguration.Type":                                    "REGIONAL",
		"Api.Properties.TracingEnabled":                                                "true",
		"Api.Properties.MethodSettings.0.DataTraceEnabled":                             "false",
		"Api.Properties.MethodSettings.0.LoggingLevel":                                 "OFF",
		"Operation.Properties.Type":                                                    "STANDARD",
		"Operation.Properties.Logging.IncludeExecutionData":                            "false",
		"Operation.Properties.Tracing.Enabled":                                         "true",
		"JanitorFunction.Properties.Events.Round.Properties.Input":                     `{"task":"round"}`,
		"JanitorFunction.Properties.Events.Round.Properties.Schedule":                  "rate(1 minute)",
		"JanitorFunction.Properties.Events.Audit.Properties.Input":                     `{"task":"audit","due":true}`,
		"JanitorFunction.Properties.Events.Audit.Properties.Schedule":                  "rate(1 hour)",
		"Domain.Properties.SecurityPolicy":                                             "TLS_1_2",
	} {
		if got := resources.at(path).String(); got != want {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
}

func TestFunctions(t *testing.T) {
	t.Parallel()
	globals := template(t).at("Globals.Function")
	for path, want := range map[string]string{
		"Runtime": "provided.al2023", "Handler": "bootstrap", "Tracing": "Active", "Architectures": "[map[Ref:Architecture]]",
	} {
		if got := globals.at(path).String(); got != want {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
	all := ofType(t, "AWS::Serverless::Function")
	if len(all) != 3 {
		t.Errorf("%d functions, want 3", len(all))
	}
	for name, f := range all {
		if got := f.at("Metadata.BuildMethod").String(); got != "makefile" {
			t.Errorf("%s is built by %s", name, got)
		}
		if got := f.at("Properties.LoggingConfig.ApplicationLogLevel").String(); got != "DEBUG" {
			t.Errorf("%s: Lambda takes lines away below %s, whatever LogLevel says", name, got)
		}
		if got := f.at("Properties.LoggingConfig.LogFormat").String(); got != "JSON" {
			t.Errorf("%s logs %s", name, got)
		}
		short := strings.TrimSuffix(name, "Function")
		if got := f.at("Properties.Role").String(); got != fmt.Sprintf("map[GetAtt:%sRole.Arn]", short) {
			t.Errorf("%s has the role %s; each function has its own", name, got)
		}
		if !strings.Contains(string(readRoot(t, "Makefile")), "build-"+name) {
			t.Errorf("the Makefile has no target build-%s", name)
		}
	}
}

func TestLogsEnd(t *testing.T) {
	t.Parallel()
	for name, group := range ofType(t, "AWS::Logs::LogGroup") {
		if got := group.at("Properties.RetentionInDays").String(); got != "map[Ref:LogRetentionDays]" {
			t.Errorf("%s is kept for %s", name, got)
		}
	}
	if got := template(t).at("Parameters.LogRetentionDays.Default").String(); got != "30" {
		t.Errorf("logs are kept for %s days", got)
	}
}

func TestTheRestAPIHasOneEventAMethod(t *testing.T) {
	t.Parallel()
	got := map[string]bool{}
	for _, value := range template(t).at("Resources.ApiFunction.Properties.Events").fields() {
		e := node{value}.at("Properties")
		got[e.at("Method").String()+" "+e.at("Path").String()] = true
		if waits := e.at("TimeoutInMillis").String(); waits != template(t).at("Parameters.ApiTimeout.Default").String()+"000" {
			t.Errorf("API Gateway waits %s ms for the function", waits)
		}
	}
	for _, want := range []string{"GET", "PUT", "POST", "PATCH", "DELETE", "HEAD", "OPTIONS"} {
		if !got[want+" /{proxy+}"] {
			t.Errorf("no event for %s", want)
		}
	}
	if !got["GET /"] || len(got) != 8 {
		t.Errorf("events %v", got)
	}
}

func TestGatewayResponsesAreOSB(t *testing.T) {
	t.Parallel()
	responses := template(t).at("Resources.Api.Properties.GatewayResponses")
	for _, name := range []string{
		"DEFAULT_4XX", "DEFAULT_5XX", "THROTTLED", "INTEGRATION_TIMEOUT", "INTEGRATION_FAILURE", "REQUEST_TOO_LARGE", "MISSING_AUTHENTICATION_TOKEN",
	} {
		body := node{responses.at(name).at("ResponseTemplates").fields()["application/json"]}.String()
		if !strings.HasPrefix(body, `{"description":"`) || !strings.HasSuffix(body, `."}`) {
			t.Errorf("%s answers %s", name, body)
		}
	}
	for name := range responses.fields() {
		// What gets another status is counted as a 4XXError, so that no alarm rings for it.
		if server := strings.HasPrefix(name, "INTEGRATION_") || name == "DEFAULT_5XX"; server && responses.at(name+".StatusCode").value != nil {
			t.Errorf("%s gets another status", name)
		}
	}
	if got := responses.at("THROTTLED"); got.at("StatusCode").String() != "503" || got.at("ResponseParameters.Headers.Retry-After").value == nil {
		t.Errorf("throttled: %s; to some platforms a 4xx is final", got)
	}
}

func TestAccessLogsHoldNoSecrets(t *testing.T) {
	t.Parallel()
	format := template(t).at("Resources.Api.Properties.AccessLogSetting.Format").String()
	for _, word := range []string{"querystring", "requestOverride", "$input", "authorizer", "header", "identity.user", "body"} {
		if strings.Contains(strings.ToLower(format), word) {
			t.Errorf("the access log holds %s", word)
		}
	}
	if !strings.Contains(format, `"path":"$context.path"`) || strings.Contains(format, "\n") {
		t.Errorf("the access log is %s", format)
	}
}

// TestTheOwnAddressCloses: API Gateway puts DisableExecuteApiEndpoint into force with
// the next change of a stage, so that the stage has to change with it.
func TestTheOwnAddressCloses(t *testing.T) {
	t.Parallel()
	for trust, want := range map[string]string{"": "open false", "s3://bucket/key": "closed true"} {
		api := template(t).at("Resources.Api.Properties")
		d := deploy(t, map[string]string{"TrustStoreUri": trust})
		if got := d.eval(api.at("Variables.ownAddress").value) + " " + d.eval(api.at("DisableExecuteApiEndpoint").value); got != want {
			t.Errorf("trust store %q: %s, want %s", trust, got, want)
		}
	}
}
