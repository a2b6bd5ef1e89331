package stack

import (
	"fmt"
	"strings"
	"testing"
)

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
				// Executions have names of their own, so that only the machine can be told.
				executions := action == "states:StopExecution" && strings.Contains(resource, ":execution:${AWS::StackName}-operation:*]")
				if strings.Contains(resource, "*") && !everywhere(action) && !executions {
					t.Errorf("%s allows %s on %s", name, action, s.at("Resource"))
				}
			}
		}
	}
	if seen < 20 {
		t.Errorf("only %d actions were looked at", seen)
	}
}

// TestRolesHaveWhatTheCodeCalls: a right that is missing shows at the first call,
// one that is too many never.
func TestRolesHaveWhatTheCodeCalls(t *testing.T) {
	t.Parallel()
	table := "dynamodb:GetItem dynamodb:PutItem dynamodb:Query dynamodb:DeleteItem"
	rest := " states:StartExecution secretsmanager:GetSecretValue logs:CreateLogStream logs:PutLogEvents"
	traces := " xray:PutTraceSegments xray:PutTelemetryRecords"
	vpc := " ec2:CreateNetworkInterface ec2:DescribeNetworkInterfaces ec2:DescribeSubnets ec2:DeleteNetworkInterface ec2:AssignPrivateIpAddresses ec2:UnassignPrivateIpAddresses"
	for name, want := range map[string]string{
		"ApiRole":    table + strings.Replace(rest, " secrets", " states:StopExecution secrets", 1) + traces + vpc,
		"PollerRole": table + rest + traces + vpc, "JanitorRole": table + " dynamodb:Query" + rest + vpc, // which is not traced

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
