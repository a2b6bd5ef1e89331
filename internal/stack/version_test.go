package stack

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// TestAVersionIsMadeOfItsParameters: `live` calls a version, and SAM makes one when the
// template's text changes, not when the value of a parameter does. Each parameter that
// the API function is made of has to stand in the version's description, so that
// CloudFormation replaces the version; and no other, since a version of a function that
// has not changed is refused.
func TestAVersionIsMadeOfItsParameters(t *testing.T) {
	t.Parallel()
	function := maps.Clone(template(t).at("Resources.ApiFunction.Properties").fields())
	description := parametersOf(t, function["VersionDescription"])
	for _, beside := range []string{
		"VersionDescription", "ProvisionedConcurrencyConfig", "ReservedConcurrentExecutions", "DeploymentPreference", "Events", "AutoPublishAlias",
	} {
		delete(function, beside)
	}
	made := parametersOf(t, []any{function, template(t).at("Globals.Function").value})
	for name := range made {
		if !description[name] {
			t.Errorf("the function is made of %s, which a new version does not follow", name)
		}
	}
	for name := range description {
		if !made[name] {
			t.Errorf("%s makes a new version, and is not in the function", name)
		}
	}
	if len(made) < 7 {
		t.Errorf("the function is made of %v only", slices.Sorted(maps.Keys(made)))
	}
}

// parametersOf are the parameters that a value of the template depends on: by a
// reference, inside of a text, or by a condition.
func parametersOf(t *testing.T, value any) map[string]bool {
	t.Helper()
	parameters, conditions := template(t).at("Parameters").fields(), template(t).at("Conditions").fields()
	found := map[string]bool{}
	seen := func(name string) {
		if _, ok := parameters[name]; ok {
			found[name] = true
		}
	}
	walk(value, "", func(_ string, v any) {
		n := node{v}
		if name, ok := n.at("Ref").value.(string); ok {
			seen(name)
		}
		for _, text := range []any{n.at("Sub").value, n.at("Sub.0").value} {
			if text, ok := text.(string); ok {
				for part := range strings.SplitSeq(text, "${") {
					name, _, _ := strings.Cut(part, "}")
					seen(name)
				}
			}
		}
		if condition, ok := n.at("If.0").value.(string); ok {
			maps.Copy(found, parametersOf(t, conditions[condition]))
		}
	})
	return found
}

// TestAVersionFollowsItsParameters evaluates the description as CloudFormation does.
func TestAVersionFollowsItsParameters(t *testing.T) {
	t.Parallel()
	const arn = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:"
	described := func(values map[string]string) string {
		return deploy(t, values).eval(template(t).at("Resources.ApiFunction.Properties.VersionDescription").value)
	}
	seen := map[string]string{described(nil): "no parameter"}
	for name, value := range map[string]string{
		"LogLevel": "debug", "ApiTimeout": "60", "Architecture": "x86_64", "ExistingTableName": "restored", "ConfigSecretName": "ferry",
		"ConfigSecretArn": arn + "ferry-AbCdEf", "VpcSubnetIds": "subnet-0123456789abcdef0", "VpcSecurityGroupIds": "sg-0123456789abcdef0",
		"LocalEndpoint": "http://127.0.0.1:4566",
	} {
		text := described(map[string]string{name: value})
		if other, before := seen[text]; before {
			t.Errorf("%s=%s makes the version of %s: %q", name, value, other, text)
		}
		seen[text] = name
	}
	long := map[string]string{
		"LogLevel": "debug", "ApiTimeout": "300", "Architecture": "x86_64", "ExistingTableName": strings.Repeat("t", 64),
		"ConfigSecretName": strings.Repeat("s", 64), "VpcSubnetIds": strings.Repeat("subnet-0123456789abcdef0,", 3),
		"VpcSecurityGroupIds": strings.Repeat("sg-0123456789abcdef0,", 2),
	}
	if text := described(long); len(text) > 256 {
		t.Errorf("%d characters, more than a description may have: %s", len(text), text)
	}
	if text := described(map[string]string{"ConfigSecretArn": arn + "ferry-AbCdEf"}); !strings.Contains(text, " ferry-AbCdEf ") {
		t.Errorf("the secret of an ARN is not in %q", text)
	}
}
