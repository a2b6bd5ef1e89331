package stack

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v4"

	"github.com/ferry-broker/ferry/internal/config"
	"github.com/ferry-broker/ferry/internal/standin"
)

const root = "../.."

// node is a part of the template. Short forms of CloudFormation's functions (!Ref x) are read as {"Ref": x}.
type node struct{ value any }

func readRoot(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// parsed is the template, read once.
var parsed = sync.OnceValues(func() (node, error) {
	var document yaml.Node
	text, err := os.ReadFile(filepath.Join(root, "template.yaml"))
	if err == nil {
		err = yaml.Unmarshal(text, &document)
	}
	if err != nil {
		return node{}, err
	}
	return node{plain(document.Content[0])}, nil
})

// template is nothing to write to.
func template(t *testing.T) node {
	t.Helper()
	n, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	return n
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

// at follows fields and indexes ("Properties.Events.Get", "Policies.0"); what is not there is nil.
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

func TestAccessLogs(t *testing.T) {
	t.Parallel()
	format := template(t).at("Resources.Api.Properties.AccessLogSetting.Format").String()
	for _, word := range []string{"querystring", "requestOverride", "$input", "authorizer", "header", "identity.user", "body"} {
		if strings.Contains(strings.ToLower(format), word) {
			t.Errorf("the access log holds %s", word)
		}
	}
	// integration_id is the function's request_id, trace is trace.
	for _, want := range []string{
		`"path":"$context.path"`, `"integration_id":"$context.integration.requestId"`, `"trace":"$context.xrayTraceId"`, `"request_id":"$context.requestId"`,
	} {
		if !strings.Contains(format, want) || strings.Contains(format, "\n") {
			t.Errorf("the access log has no %s, or has several lines: %s", want, format)
		}
	}
}

func TestParametersAndOutputs(t *testing.T) {
	t.Parallel()
	stack := template(t)
	for name, want := range map[string]string{"Architecture": "arm64", "Stage": "prod", "LocalEndpoint": "", "LogLevel": "info", "ConfigSecretArn": "",
		"BasePath": "", "ApiConcurrency": "0", "PollerConcurrency": "0", "TraceSampling": "0.05", "ConfigMaxAge": "1m",
	} {
		p := stack.at("Parameters." + name)
		if p.value == nil || p.at("Default").String() != want {
			t.Errorf("parameter %s: %s, want the default %q", name, p, want)
		}
	}
	for name, value := range stack.at("Parameters").fields() {
		if (node{value}).at("Default").value == nil {
			t.Errorf("parameter %s has no default: sam deploy would ask", name)
		}
	}
	for _, name := range []string{
		"BrokerUrl", "ConfigSecretArn", "TableName", "StateMachineArn", "ApiFunctionName", "PollerFunctionName", "JanitorFunctionName", "Version",
	} {
		if stack.at("Outputs."+name+".Value").value == nil {
			t.Errorf("no output %s", name)
		}
	}
}

// TestTheTableIsTheStores compares the template with what internal/dynamo expects.
func TestTheTableIsTheStores(t *testing.T) {
	t.Parallel()
	want, table := standin.Table("t"), template(t).at("Resources.Table.Properties")
	got := map[string]string{}
	for i := range want.AttributeDefinitions {
		a := node{table.at("AttributeDefinitions").value.([]any)[i]}
		got[a.at("AttributeName").String()] = a.at("AttributeType").String()
	}
	expected := map[string]string{}
	for _, a := range want.AttributeDefinitions {
		expected[*a.AttributeName] = string(a.AttributeType)
	}
	if diff := cmp.Diff(expected, got); diff != "" {
		t.Errorf("attributes (-store +template):\n%s", diff)
	}
	keys := func(list node) []string {
		return []string{
			list.at("0.AttributeName").String(), list.at("0.KeyType").String(),
			list.at("1.AttributeName").String(), list.at("1.KeyType").String(),
		}
	}
	index, stored := table.at("GlobalSecondaryIndexes.0"), want.GlobalSecondaryIndexes[0]
	for name, pair := range map[string][2][]string{
		"keys": {keys(table.at("KeySchema")), {*want.KeySchema[0].AttributeName, "HASH", *want.KeySchema[1].AttributeName, "RANGE"}},
		"index keys": {keys(index.at("KeySchema")),
			{*stored.KeySchema[0].AttributeName, "HASH", *stored.KeySchema[1].AttributeName, "RANGE"}},
		"index": {{index.at("IndexName").String(), index.at("Projection.ProjectionType").String()},
			{*stored.IndexName, string(stored.Projection.ProjectionType)}},
		"projection": {strings.Fields(strings.Trim(index.at("Projection.NonKeyAttributes").String(), "[]")), stored.Projection.NonKeyAttributes},
		"ttl":        {{table.at("TimeToLiveSpecification.AttributeName").String()}, {"expires_at"}},
	} {
		if diff := cmp.Diff(pair[1], pair[0]); diff != "" {
			t.Errorf("%s (-store +template):\n%s", name, diff)
		}
	}
}

// TestTheExampleSecretStartsNothing: it has a password that everybody can read. All that is wrong with it is the line
// that says to be removed.
func TestTheExampleSecretStartsNothing(t *testing.T) {
	t.Parallel()
	text := template(t).at("Resources.ConfigSecret.Properties.SecretString").String()
	none := func(string) (string, bool) { return "", false }
	if _, err := config.Parse("example", []byte(text), none, os.ReadFile); err == nil {
		t.Error("the example is a configuration")
	}
	real := regexp.MustCompile(`(?m)^this_is_an_example:.*$`).ReplaceAllString(text, "")
	if _, err := config.Parse("example", []byte(real), none, os.ReadFile); err != nil {
		t.Errorf("without its last line: %v", err)
	}
}

func TestOptionsHaveConditions(t *testing.T) {
	t.Parallel()
	resources := template(t).at("Resources")
	for name, want := range map[string]string{
		"Domain": "HasDomain", "DomainMapping": "HasDomain", "WebAcl": "HasWebAcl", "ConfigSecret": "OwnSecret",
		"ApiGatewayAccount": "MakesLogRole", "GatewayRole": "MakesLogRole",
	} {
		if got := resources.at(name + ".Condition").String(); got != want {
			t.Errorf("%s is made under the condition %s, want %s", name, got, want)
		}
	}
	if got := template(t).at("Globals.Function.VpcConfig.If.0").String(); got != "InVpc" {
		t.Errorf("the VPC is under the condition %s", got)
	}
	if got := resources.at("ApiFunction.Properties.ProvisionedConcurrencyConfig.If.0").String(); got != "KeepsWarm" {
		t.Errorf("provisioned concurrency is under the condition %s", got)
	}
}

func TestSamconfig(t *testing.T) {
	t.Parallel()
	text := string(readRoot(t, "samconfig.toml"))
	for _, section := range []string{"default", "staging", "prod", "local"} {
		for _, command := range []string{"global", "validate", "build", "deploy", "sync"} {
			if section == "prod" && command == "sync" {
				continue // what is there is deployed, and nothing else
			}
			if !strings.Contains(text, "\n["+section+"."+command+".parameters]\n") {
				t.Errorf("no section %s.%s", section, command)
			}
		}
	}
	if strings.Count(text, "build_in_source = true") != 7 {
		t.Error("not every build is made in place")
	}
	if strings.Count(text, "region = ") != 1 || !strings.Contains(text, "stack_name = \"ferry-local\"\nregion = \"us-east-1\"") {
		t.Error("a region belongs into the section local alone: it would beat that of the AWS profile")
	}
}

// everywhere are the actions that AWS grants for all resources or not at all.
func everywhere(action string) bool {
	switch action {
	case "xray:PutTraceSegments", "xray:PutTelemetryRecords", "xray:GetSamplingRules", "xray:GetSamplingTargets",
		"logs:CreateLogDelivery", "logs:GetLogDelivery", "logs:UpdateLogDelivery", "logs:DeleteLogDelivery",
		"logs:ListLogDeliveries", "logs:PutResourcePolicy", "logs:DescribeResourcePolicies", "logs:DescribeLogGroups",
		"ec2:CreateNetworkInterface", "ec2:DescribeNetworkInterfaces", "ec2:DescribeSubnets", "ec2:DeleteNetworkInterface",
		"ec2:AssignPrivateIpAddresses", "ec2:UnassignPrivateIpAddresses":
		return true
	}
	return false
}

func actions(statement node) []string {
	switch action := statement.at("Action").value.(type) {
	case string:
		return []string{action}
	case []any:
		all := make([]string, 0, len(action))
		for _, a := range action {
			all = append(all, fmt.Sprint(a))
		}
		return all
	}
	return nil
}

// statements returns every statement of a role's policies.
func statements(role node) []node {
	var found []node
	walk(role.at("Properties.Policies").value, "", func(_ string, value any) {
		if s := (node{value}); s.at("Effect").value != nil {
			found = append(found, s)
		}
	})
	return found
}

func TestPoliciesNameWhatTheyAllow(t *testing.T) {
	t.Parallel()
	seen := 0
	for name, role := range ofType(t, "AWS::IAM::Role") {
		for _, s := range statements(role) {
			for _, action := range actions(s) {
				seen++
				if strings.Contains(action, "*") {
					t.Errorf("%s allows %s", name, action)
				}
				resource := s.at("Resource").String()
				if strings.Contains(resource, "*") && !everywhere(action) {
					t.Errorf("%s allows %s on %s", name, action, s.at("Resource"))
				}
			}
		}
	}
	if seen < 20 {
		t.Errorf("only %d actions were looked at", seen)
	}
}

// TestRolesHaveWhatTheCodeCalls: a right that is missing shows at the first call, one that is too many never.
func TestRolesHaveWhatTheCodeCalls(t *testing.T) {
	t.Parallel()
	table := "dynamodb:GetItem dynamodb:PutItem dynamodb:Query dynamodb:DeleteItem"
	rest := " states:StartExecution secretsmanager:GetSecretValue logs:CreateLogStream logs:PutLogEvents"
	traces := " xray:PutTraceSegments xray:PutTelemetryRecords"
	vpc := " ec2:CreateNetworkInterface ec2:DescribeNetworkInterfaces ec2:DescribeSubnets ec2:DeleteNetworkInterface ec2:AssignPrivateIpAddresses ec2:UnassignPrivateIpAddresses"
	for name, want := range map[string]string{
		"ApiRole":     table + rest + traces + vpc,
		"PollerRole":  table + rest + traces + vpc,
		"JanitorRole": table + " dynamodb:BatchGetItem dynamodb:Query" + rest + vpc, // which is not traced
	} {
		var got []string
		for _, s := range statements(template(t).at("Resources." + name)) {
			got = append(got, actions(s)...)
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("%s allows\n%s, want\n%s", name, text, want)
		}
	}
}

func TestNoSAMPolicyWidensARole(t *testing.T) {
	t.Parallel()
	for name, f := range ofType(t, "AWS::Serverless::Function") {
		if f.at("Properties.Policies").value != nil {
			t.Errorf("%s has policies beside its role", name)
		}
	}
}
