package stack

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
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

// eval carries out CloudFormation's functions, as far as the tests look at them. What only a deployment knows stays as
// {Table} or {Table.Arn}.
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

// TestParametersReach: what a parameter says is told to everybody whom it concerns.
func TestParametersReach(t *testing.T) {
	t.Parallel()
	const (
		arn      = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:mine-AbCdEf"
		named    = "arn:{AWS::Partition}:secretsmanager:{AWS::Region}:{AWS::AccountId}:secret:ferry"
		restored = "arn:{AWS::Partition}:dynamodb:{AWS::Region}:{AWS::AccountId}:table/restored"
		nothing  = "{AWS::NoValue}"
	)
	// The functions may read one secret and no other; the stack makes one where none is told.
	secret := func(reads, may, told, makes string) map[string]string {
		return map[string]string{
			"Globals.Function.Environment.Variables.FERRY_CONFIG_SECRET_ARN": reads, "Outputs.ConfigSecretArn.Value": told,
			"Resources.ConfigSecret.Condition": makes, "each role secretsmanager:GetSecretValue": may,
		}
	}
	// A table that was restored takes the place of the stack's own everywhere.
	table := func(name, arn, makes string) map[string]string {
		return map[string]string{
			"Globals.Function.Environment.Variables.FERRY_TABLE": name, "Outputs.TableName.Value": name, "Resources.Table.Condition": makes,
			"Resources.TableThrottlesAlarm.Properties.Dimensions.0.Value": name, "Resources.IndexThrottlesAlarm.Properties.Dimensions.0.Value": name,
			"each role dynamodb:PutItem": arn, "each role dynamodb:DeleteItem": arn, "JanitorRole dynamodb:Query": arn + " " + arn + "/index/due",
		}
	}
	// The mapping, the function and whoever registers the broker are told the same base path.
	base := func(mapped, variable, url string) map[string]string {
		return map[string]string{
			"Resources.DomainMapping.Properties.BasePath": mapped, "Resources.Api.Properties.Variables.basePath": variable, "Outputs.BrokerUrl.Value": url,
		}
	}
	// What is reserved for the poller, requests that are held cannot take. 0 reserves nothing, which every account can.
	reserved := func(n string) map[string]string {
		return map[string]string{
			"Resources.ApiFunction.Properties.ReservedConcurrentExecutions": n, "Resources.PollerFunction.Properties.ReservedConcurrentExecutions": n,
			"Resources.JanitorFunction.Properties.ReservedConcurrentExecutions": n,
		}
	}
	// API Gateway puts DisableExecuteApiEndpoint into force with the next change of a stage, so that the stage has to
	// change with it.
	address := func(open, disabled string) map[string]string {
		return map[string]string{"Resources.Api.Properties.Variables.ownAddress": open, "Resources.Api.Properties.DisableExecuteApiEndpoint": disabled}
	}
	age := func(d string) map[string]string {
		return map[string]string{"Globals.Function.Environment.Variables.FERRY_CONFIG_MAX_AGE": d}
	}
	type values = map[string]string
	for name, test := range map[string]struct{ values, want map[string]string }{
		"without a secret's name the stack makes one": {nil, secret("{ConfigSecret}", "{ConfigSecret}", "{ConfigSecret}", "true")},
		"a secret's name is enough":                   {values{"ConfigSecretName": "ferry"}, secret("ferry", named+"-??????", named, "false")},
		"a secret's ARN is as well":                   {values{"ConfigSecretArn": arn}, secret(arn, arn, arn, "false")},
		"a whole ARN says more than a name":           {values{"ConfigSecretArn": arn, "ConfigSecretName": "ferry"}, secret(arn, arn, arn, "false")},
		"the stack makes its table":                   {nil, table("{Table}", "{Table.Arn}", "true")},
		"unless it is told of one":                    {values{"ExistingTableName": "restored"}, table("restored", restored, "false")},
		"no base path":                                {values{"DomainName": "osb.example.org"}, base(nothing, nothing, "https://osb.example.org")},
		"a base path":                                 {values{"DomainName": "osb.example.org", "BasePath": "ferry"}, base("ferry", "/ferry", "https://osb.example.org/ferry")},
		"a base path of a mapping elsewhere": {values{"BasePath": "ferry"}, base("ferry", "/ferry",
			"https://{Api}.execute-api.{AWS::Region}.{AWS::URLSuffix}/prod")},
		"the secret is read each minute":       {nil, age("1m")},
		"the secret is read each five minutes": {values{"ConfigMaxAge": "5m"}, age("5m")},
		"a stand-in's secret is read at once":  {values{"ConfigMaxAge": "5m", "LocalEndpoint": "http://127.0.0.1:4566"}, age("1s")},
		"nothing is reserved unasked":          {nil, reserved(nothing)},
		"nothing is reserved":                  {values{"ApiConcurrency": "0", "PollerConcurrency": "0", "JanitorConcurrency": "0"}, reserved(nothing)},
		"seven are reserved":                   {values{"ApiConcurrency": "7", "PollerConcurrency": "7", "JanitorConcurrency": "7"}, reserved("7")},
		"the own address is open":              {values{"TrustStoreUri": ""}, address("open", "false")},
		"the own address is closed":            {values{"TrustStoreUri": "s3://bucket/key"}, address("closed", "true")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := deploy(t, test.values)
			for path, want := range test.want {
				for _, place := range places(path) {
					if got := d.at(place); got != want {
						t.Errorf("%s is %s, want %s", place, got, want)
					}
				}
			}
		})
	}
}

// places are the roles of "each role", or the place itself.
func places(path string) []string {
	action, each := strings.CutPrefix(path, "each role ")
	if !each {
		return []string{path}
	}
	return []string{"ApiRole " + action, "PollerRole " + action, "JanitorRole " + action}
}

// at is a value at a path, whether a resource's condition holds, or what a role may use an action on.
func (d deployed) at(place string) string {
	if role, action, found := strings.Cut(place, " "); found {
		return strings.Join(d.resources(role, action), " ")
	}
	value := d.stack.at(place)
	if strings.HasSuffix(place, ".Condition") {
		return fmt.Sprint(d.holds(value.String()))
	}
	return d.eval(value.value)
}

// TestReadmeDeploysWhatSamconfigNames: the README's two commands agree with each other only through the name of the
// secret in samconfig.toml.
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

// TestAVersionIsMadeOfItsParameters: `live` calls a version, and SAM makes one when the template's text changes, not
// when the value of a parameter does. Each parameter that the API function is made of has to stand in the version's
// description, so that CloudFormation replaces the version; and no other, since a version of a function that has not
// changed is refused.
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

// parametersOf are the parameters that a value of the template depends on: by a reference, inside of a text, or by a
// condition.
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
		"LogLevel": "debug", "ApiTimeout": "60", "ConfigMaxAge": "5m", "Architecture": "x86_64", "ExistingTableName": "restored", "ConfigSecretName": "ferry",
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
		"LogLevel": "debug", "ApiTimeout": "300", "ConfigMaxAge": "9999s", "Architecture": "x86_64", "ExistingTableName": strings.Repeat("t", 64),
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

// translated is what SAM makes of the template's resources with each of these parameters.
func translated(t *testing.T, parameters ...string) (all []node) {
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
	var resources []any
	if err := json.Unmarshal(out, &resources); err != nil || len(resources) != len(parameters) {
		t.Fatalf("%v: %.300s", err, out)
	}
	for _, made := range resources {
		all = append(all, node{made})
	}
	return all
}

// TestACanaryGoesBackByItsAlarm: with Rollout=canary CodeDeploy moves the alias; without, nothing of it is made, so
// that a deployment passes whatever rings.
func TestACanaryGoesBackByItsAlarm(t *testing.T) {
	t.Parallel()
	made := translated(t, "Rollout=canary", "Rollout=at-once")
	canary, atOnce := made[0], made[1]
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

// TestTracesAreSampled: API Gateway and Step Functions decide, each by its own rule, and a rule of one stack is none of
// another's.
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

// TestTheVersion is that of the changelog, and stands in the output, in the environment, in the version of the API
// function and in the tags of what lives long.
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
