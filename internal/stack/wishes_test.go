package stack

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// translated is what SAM makes of the template's resources with these parameters.
func translated(t *testing.T, parameters ...string) node {
	t.Helper()
	template, err := filepath.Abs(filepath.Join(root, "template.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	command := inVenv(t, "python", append([]string{filepath.Join("testdata", "translate.py"), template}, parameters...)...)
	out, err := command.Output()
	if err != nil {
		t.Fatalf("translate.py: %v\n%s", err, errorOutput(err))
	}
	var resources any
	if err := json.Unmarshal(out, &resources); err != nil {
		t.Fatal(err)
	}
	return node{resources}
}

// TestACanaryGoesBackByItsAlarm: with Rollout=canary CodeDeploy moves the alias; without,
// nothing of it is made, so that a deployment passes whatever rings.
func TestACanaryGoesBackByItsAlarm(t *testing.T) {
	t.Parallel()
	canary, atOnce := translated(t, "Rollout=canary"), translated(t, "Rollout=at-once")
	group := canary.at("ApiFunctionDeploymentGroup.Properties")
	for path, want := range map[string]string{
		"AlarmConfiguration.Enabled":        "true",
		"AlarmConfiguration.Alarms":         "[map[Name:map[Ref:ReleaseAlarm]]]",
		"AutoRollbackConfiguration.Enabled": "true",
		"DeploymentConfigName.Fn::Sub.1":    "map[ConfigName:Canary10Percent5Minutes]",
	} {
		if got := group.at(path).String(); got != want {
			t.Errorf("canary: %s is %s, want %s", path, got, want)
		}
	}
	if canary.at("ApiFunctionAliaslive.UpdatePolicy.CodeDeployLambdaAliasUpdate").value == nil {
		t.Error("canary: CodeDeploy does not move the alias")
	}
	for _, policy := range []string{"ApiFunctionDeploymentGroup", "ApiFunctionAliaslive.UpdatePolicy"} {
		if atOnce.at(policy).value != nil {
			t.Errorf("at once: there is a %s", policy)
		}
	}
	samconfig := string(readRoot(t, "samconfig.toml"))
	for _, section := range []string{"default", "staging", "prod"} {
		if _, rest, _ := strings.Cut(samconfig, "\n["+section+".deploy.parameters]\n"); !strings.Contains(strings.SplitN(rest, "\n[", 2)[0], " Rollout=canary") {
			t.Errorf("section %s deploys without a canary", section)
		}
	}
}

// TestReservedConcurrency: what is reserved for the poller, requests that are held cannot
// take. 0 reserves nothing, which every account can.
func TestReservedConcurrency(t *testing.T) {
	t.Parallel()
	for function, parameter := range map[string]string{
		"ApiFunction": "ApiConcurrency", "PollerFunction": "PollerConcurrency", "JanitorFunction": "JanitorConcurrency",
	} {
		reserved := template(t).at("Resources." + function + ".Properties.ReservedConcurrentExecutions").value
		for value, want := range map[string]string{"0": "{AWS::NoValue}", "7": "7"} {
			if got := deploy(t, map[string]string{parameter: value}).eval(reserved); got != want {
				t.Errorf("%s=%s: %s reserves %s, want %s", parameter, value, function, got, want)
			}
		}
		if got := deploy(t, nil).eval(reserved); got != "{AWS::NoValue}" {
			t.Errorf("%s reserves %s without being asked to", function, got)
		}
	}
}

// TestABasePath: the mapping, the function and whoever registers the broker are told the same.
func TestABasePath(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		values                map[string]string
		mapped, variable, url string
	}{
		"none": {map[string]string{"DomainName": "osb.example.org"}, "{AWS::NoValue}", "{AWS::NoValue}", "https://osb.example.org"},
		"one":  {map[string]string{"DomainName": "osb.example.org", "BasePath": "ferry"}, "ferry", "/ferry", "https://osb.example.org/ferry"},
		"one of a mapping elsewhere": {map[string]string{"BasePath": "ferry"}, "ferry", "/ferry",
			"https://{Api}.execute-api.{AWS::Region}.{AWS::URLSuffix}/prod"},
	} {
		d := deploy(t, test.values)
		for path, want := range map[string]string{
			"Resources.DomainMapping.Properties.BasePath": test.mapped, "Resources.Api.Properties.Variables.basePath": test.variable,
			"Outputs.BrokerUrl.Value": test.url,
		} {
			if got := d.eval(d.stack.at(path).value); got != want {
				t.Errorf("%s: %s is %s, want %s", name, path, got, want)
			}
		}
	}
}

// TestTracesAreSampled: API Gateway and Step Functions decide, each by its own rule, and
// a rule of one stack is none of another's.
func TestTracesAreSampled(t *testing.T) {
	t.Parallel()
	d := deploy(t, map[string]string{"TraceSampling": "0.5", "AWS::StackId": "arn:aws:cloudformation:eu-central-1:123456789012:stack/ferry/51af3dc0-da77-11e4-872e-1234567db123"})
	names := map[string]bool{}
	for _, rule := range ofType(t, "AWS::XRay::SamplingRule") {
		r := rule.at("Properties.SamplingRule")
		name := d.eval(r.at("RuleName").value)
		if len(name) > 32 || !strings.HasSuffix(name, "-1234567db123") || names[name] {
			t.Errorf("a rule is called %s", name)
		}
		names[name] = true
		if got := d.eval(r.at("FixedRate").value) + " " + r.at("ReservoirSize").String(); got != "0.5 0" {
			t.Errorf("%s records %s", name, got)
		}
		if rule.at("Condition").String() != "Samples" {
			t.Errorf("%s is made under the condition %s", name, rule.at("Condition"))
		}
	}
	if len(names) != 2 {
		t.Errorf("rules %v, want one for requests and one for executions", names)
	}
	for name, want := range map[string]string{
		"RequestSampling":   "AWS::ApiGateway::Stage {AWS::StackName}/prod",
		"ExecutionSampling": "AWS::StepFunctions::StateMachine " + d.eval(d.stack.at("Resources.Operation.Properties.Name").value),
	} {
		r := d.stack.at("Resources." + name + ".Properties.SamplingRule")
		if got := r.at("ServiceType").String() + " " + d.eval(r.at("ServiceName").value); got != want {
			t.Errorf("%s is for %s, want %s", name, got, want)
		}
	}
	if got := d.stack.at("Resources.JanitorFunction.Properties.Tracing").String(); got != "PassThrough" {
		t.Errorf("the janitor's traces are %s: Lambda asks no rule", got)
	}
}

// TestAccessLogsJoinTheFunctions: integration_id is the function's request_id, trace is
// trace.
func TestAccessLogsJoinTheFunctions(t *testing.T) {
	t.Parallel()
	format := template(t).at("Resources.Api.Properties.AccessLogSetting.Format").String()
	for _, want := range []string{`"integration_id":"$context.integration.requestId"`, `"trace":"$context.xrayTraceId"`, `"request_id":"$context.requestId"`} {
		if !strings.Contains(format, want) {
			t.Errorf("the access log has no %s: %s", want, format)
		}
	}
}

// TestTheVersion is that of the changelog, and stands in the output, in the environment,
// in the version of the API function and in the tags of what lives long.
func TestTheVersion(t *testing.T) {
	t.Parallel()
	_, rest, _ := strings.Cut(string(readRoot(t, "CHANGELOG.md")), "\n## [")
	want, _, _ := strings.Cut(rest, "]")
	d := deploy(t, nil)
	for _, path := range []string{
		"Outputs.Version.Value", "Globals.Function.Environment.Variables.FERRY_VERSION", "Globals.Function.Tags.ferry-version",
		"Resources.Api.Properties.Tags.ferry-version", "Resources.Operation.Properties.Tags.ferry-version",
		"Resources.Table.Properties.Tags.0.Value", "Resources.ConfigSecret.Properties.Tags.0.Value",
	} {
		if got := d.eval(d.stack.at(path).value); got == "" || got != strings.ToLower(want) {
			t.Errorf("%s is %q, and CHANGELOG.md begins with %q", path, got, want)
		}
	}
	if got := d.eval(d.stack.at("Resources.ApiFunction.Properties.VersionDescription").value); !strings.HasPrefix(got, strings.ToLower(want)+" ") {
		t.Errorf("the version of the API function is described as %q", got)
	}
	if got := fmt.Sprint(d.stack.at("Parameters.Version").value); got != "<nil>" {
		t.Error("the version is a parameter: a stack would keep the old one")
	}
}
