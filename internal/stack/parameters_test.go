package stack

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// deployed is a template with values for its parameters; the rest have their defaults.
type deployed struct {
	stack  node
	values map[string]string
}

// deploy takes values of parameters, and of names that AWS sets, as AWS::StackId.
func deploy(t *testing.T, values map[string]string) deployed {
	t.Helper()
	for name := range values {
		if !strings.HasPrefix(name, "AWS::") && template(t).at("Parameters."+name).value == nil {
			t.Fatalf("no parameter %s", name)
		}
	}
	return deployed{template(t), values}
}

// eval carries out CloudFormation's functions, as far as the tests look at them. What
// only a deployment knows stays as {Table} or {Table.Arn}.
func (d deployed) eval(value any) string {
	function, argument := "", any(nil)
	if fields, ok := value.(map[string]any); ok && len(fields) == 1 {
		for function, argument = range fields {
		}
	}
	arguments, _ := argument.([]any)
	switch function {
	case "Ref":
		return d.named(argument.(string))
	case "GetAtt":
		return "{" + argument.(string) + "}"
	case "If":
		if d.holds(arguments[0].(string)) {
			return d.eval(arguments[1])
		}
		return d.eval(arguments[2])
	case "Sub":
		return d.sub(argument, arguments)
	case "Join":
		return strings.Join(d.list(arguments[1]), d.eval(arguments[0]))
	case "Select":
		index := -1
		_, _ = fmt.Sscan(d.eval(arguments[0]), &index) // out of range otherwise
		return d.list(arguments[1])[index]
	case "FindInMap":
		return d.stack.at("Mappings." + d.eval(arguments[0]) + "." + d.eval(arguments[1]) + "." + d.eval(arguments[2])).String()
	case "Equals":
		return fmt.Sprint(d.eval(arguments[0]) == d.eval(arguments[1]))
	case "Not":
		return fmt.Sprint(d.eval(arguments[0]) != "true")
	case "And":
		return fmt.Sprint(d.eval(arguments[0]) == "true" && d.eval(arguments[1]) == "true")
	default:
		return fmt.Sprint(value)
	}
}

// list carries out what makes a list: a literal, Split, and the parameters that are one.
func (d deployed) list(value any) []string {
	if items, literal := value.([]any); literal {
		all := make([]string, 0, len(items))
		for _, item := range items {
			all = append(all, d.eval(item))
		}
		return all
	}
	if arguments, ok := (node{value}).at("Split").value.([]any); ok {
		return strings.Split(d.eval(arguments[1]), d.eval(arguments[0]))
	}
	return strings.Split(d.eval(value), ",")
}

func (d deployed) holds(condition string) bool {
	return d.eval(d.stack.at("Conditions."+condition).value) == "true"
}

func (d deployed) named(name string) string {
	if value, given := d.values[name]; given {
		return value
	}
	if fallback := d.stack.at("Parameters." + name + ".Default"); fallback.value != nil {
		return fallback.String()
	}
	return "{" + name + "}"
}

func (d deployed) sub(text any, arguments []any) string {
	variables := map[string]any{}
	if len(arguments) == 2 {
		text, variables = arguments[0], arguments[1].(map[string]any)
	}
	return regexp.MustCompile(`\$\{[^}]+\}`).ReplaceAllStringFunc(text.(string), func(match string) string {
		name := strings.Trim(match, "${}")
		if value, own := variables[name]; own {
			return d.eval(value)
		}
		return d.named(name)
	})
}

// resources are what a role may use an action on.
func (d deployed) resources(role, action string) []string {
	var found []string
	for _, s := range statements(d.stack.at("Resources." + role)) {
		for _, a := range actions(s) {
			if a == action {
				found = append(found, d.eval(s.at("Resource").value))
			}
		}
	}
	return found
}

// TestTheSecretOfTheConfiguration: named, by a whole ARN, or the stack's own; the
// functions may read that one and no other.
func TestTheSecretOfTheConfiguration(t *testing.T) {
	t.Parallel()
	const arn = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:mine-AbCdEf"
	const named = "arn:{AWS::Partition}:secretsmanager:{AWS::Region}:{AWS::AccountId}:secret:ferry"
	for name, test := range map[string]struct {
		values                 map[string]string
		reads, may, out, makes string
	}{
		"without a name the stack makes one": {nil, "{ConfigSecret}", "{ConfigSecret}", "{ConfigSecret}", "true"},
		"a name is enough":                   {map[string]string{"ConfigSecretName": "ferry"}, "ferry", named + "-??????", named, "false"},
		"an ARN is as well":                  {map[string]string{"ConfigSecretArn": arn}, arn, arn, arn, "false"},
		"a whole ARN says more than a name":  {map[string]string{"ConfigSecretArn": arn, "ConfigSecretName": "ferry"}, arn, arn, arn, "false"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := deploy(t, test.values)
			if got := d.eval(d.stack.at("Globals.Function.Environment.Variables.FERRY_CONFIG_SECRET_ARN").value); got != test.reads {
				t.Errorf("the functions read %s, want %s", got, test.reads)
			}
			for _, role := range []string{"ApiRole", "PollerRole", "JanitorRole"} {
				if got := d.resources(role, "secretsmanager:GetSecretValue"); len(got) != 1 || got[0] != test.may {
					t.Errorf("%s may read %q, want %s", role, got, test.may)
				}
			}
			if got := d.eval(d.stack.at("Outputs.ConfigSecretArn.Value").value); got != test.out {
				t.Errorf("the output is %s, want %s", got, test.out)
			}
			if got := fmt.Sprint(d.holds(d.stack.at("Resources.ConfigSecret.Condition").String())); got != test.makes {
				t.Errorf("the stack makes a secret: %s, want %s", got, test.makes)
			}
		})
	}
}

// TestATableThatWasRestored takes the place of the stack's own everywhere.
func TestATableThatWasRestored(t *testing.T) {
	t.Parallel()
	const restored = "arn:{AWS::Partition}:dynamodb:{AWS::Region}:{AWS::AccountId}:table/restored"
	for name, test := range map[string]struct {
		values     map[string]string
		table, arn string
		own        bool
	}{
		"the stack makes its table": {nil, "{Table}", "{Table.Arn}", true},
		"unless it is told of one":  {map[string]string{"ExistingTableName": "restored"}, "restored", restored, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := deploy(t, test.values)
			for _, path := range []string{
				"Globals.Function.Environment.Variables.FERRY_TABLE", "Outputs.TableName.Value",
				"Resources.TableThrottlesAlarm.Properties.Dimensions.0.Value", "Resources.IndexThrottlesAlarm.Properties.Dimensions.0.Value",
			} {
				if got := d.eval(d.stack.at(path).value); got != test.table {
					t.Errorf("%s is %s, want %s", path, got, test.table)
				}
			}
			for _, role := range []string{"ApiRole", "PollerRole", "JanitorRole"} {
				want := test.arn
				if got := d.resources(role, "dynamodb:PutItem"); len(got) != 1 || got[0] != want {
					t.Errorf("%s may write to %q, want %s", role, got, want)
				}
				if got := d.resources(role, "dynamodb:DeleteItem"); len(got) != 1 || got[0] != want {
					t.Errorf("%s may delete from %q, want %s", role, got, want)
				}
			}
			if got := d.resources("JanitorRole", "dynamodb:Query"); len(got) != 2 || got[0] != test.arn || got[1] != test.arn+"/index/due" {
				t.Errorf("the janitor may query %q", got)
			}
			if got := d.holds(d.stack.at("Resources.Table.Condition").String()); got != test.own {
				t.Errorf("the stack makes a table: %t, want %t", got, test.own)
			}
		})
	}
}

// TestReadmeDeploysWhatSamconfigNames: the README's two commands agree with each other
// only through the name of the secret in samconfig.toml.
func TestReadmeDeploysWhatSamconfigNames(t *testing.T) {
	t.Parallel()
	samconfig := string(readRoot(t, "samconfig.toml"))
	for section, name := range map[string]string{"default": "ferry", "staging": "ferry-staging", "prod": "ferry-prod"} {
		_, rest, _ := strings.Cut(samconfig, "\n["+section+".deploy.parameters]\n")
		own, _, _ := strings.Cut(rest, "\n[")
		if !regexp.MustCompile(`parameter_overrides = "ConfigSecretName=` + name + `["\s]`).MatchString(own) {
			t.Errorf("section %s deploys without the secret %s: %s", section, name, own)
		}
	}
	readme := string(readRoot(t, "README.md"))
	if want := "aws secretsmanager create-secret --name ferry --secret-string file://ferry.yaml\nsam build && sam deploy\n"; !strings.Contains(readme, want) {
		t.Errorf("the README does not say\n%s", want)
	}
}
