package stack

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-broker/ferry/internal/config"
	"github.com/ferry-broker/ferry/internal/dynamo"
)

func TestParametersAndOutputs(t *testing.T) {
	t.Parallel()
	stack := template(t)
	for name, want := range map[string]string{"Architecture": "arm64", "Stage": "prod", "LocalEndpoint": "", "LogLevel": "info", "ConfigSecretArn": "",
		"BasePath": "", "ApiConcurrency": "0", "PollerConcurrency": "0", "TraceSampling": "0.05",
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
	want, table := dynamo.Table("t"), template(t).at("Resources.Table.Properties")
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
		"ttl": {{table.at("TimeToLiveSpecification.AttributeName").String()},
			{*dynamo.TimeToLive("t").TimeToLiveSpecification.AttributeName}},
	} {
		if diff := cmp.Diff(pair[1], pair[0]); diff != "" {
			t.Errorf("%s (-store +template):\n%s", name, diff)
		}
	}
}

// TestTheExampleSecretStartsNothing: it has a password that everybody can read. All
// that is wrong with it is the line that says to be removed.
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

// TestAlarmsLeadToTheRunbook: each alarm names an entry, and each is there.
func TestAlarmsLeadToTheRunbook(t *testing.T) {
	t.Parallel()
	headings := map[string]bool{}
	for line := range strings.Lines(string(readRoot(t, "docs/runbook.md"))) {
		if title, ok := strings.CutPrefix(strings.TrimSpace(line), "### "); ok {
			headings[strings.ReplaceAll(strings.ToLower(title), " ", "-")] = true
		}
	}
	anchor := regexp.MustCompile(`See docs/runbook\.md#([a-z-]+)$`)
	alarms := ofType(t, "AWS::CloudWatch::Alarm")
	for name, alarm := range alarms {
		found := anchor.FindStringSubmatch(alarm.at("Properties.AlarmDescription").String())
		if found == nil || !headings[found[1]] {
			t.Errorf("%s: no entry in docs/runbook.md for %q", name, alarm.at("Properties.AlarmDescription"))
		}
		if alarm.at("Properties.TreatMissingData").value == nil || alarm.at("Properties.AlarmActions").value == nil {
			t.Errorf("%s does not say what missing data mean, or tells nobody", name)
		}
	}
	for _, metric := range []string{
		"5XXError", "Throttles", "Errors", "OverdueOperations", "ExecutionsFailed", "Invocations", "AuditsFailed", "AuditsCompleted", "ConfigurationFaults",
	} {
		watched := false
		for _, alarm := range alarms {
			watched = watched || alarm.at("Properties.MetricName").String() == metric
		}
		if !watched {
			t.Errorf("no alarm watches %s", metric)
		}
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
