package deployed

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/ferry-broker/ferry/internal/sfn"
)

// actionOf reads which action of which service a request asks for.
func actionOf(r *http.Request) string {
	service, action, ok := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	switch {
	case !ok:
		return ""
	case strings.HasPrefix(service, "DynamoDB"):
		return "DynamoDB." + action
	case service == "AWSStepFunctions":
		return "StepFunctions." + action
	case service == "secretsmanager":
		return "SecretsManager." + action
	default:
		return service + "." + action
	}
}

// idsOf reads which ids a call is about; none when it is about no single one.
func idsOf(action string, body []byte) []string {
	service, _, _ := strings.Cut(action, ".")
	switch service {
	case "DynamoDB":
		return idsOfItem(body)
	case "StepFunctions":
		return idsOfExecution(body)
	case "SecretsManager":
		var secret struct{ SecretID string }
		_ = json.Unmarshal(body, &secret)
		return []string{secret.SecretID}
	default:
		return nil
	}
}

// idsOfItem reads the keys of an item (internal/dynamo), wherever a call names them.
func idsOfItem(body []byte) []string {
	type attributes map[string]struct{ B []byte }
	var in struct{ Key, Item, ExpressionAttributeValues attributes }
	if json.Unmarshal(body, &in) != nil {
		return nil
	}
	var ids []string
	for _, key := range [][]byte{
		in.Key["pk"].B, in.Item["pk"].B, in.ExpressionAttributeValues[":pk"].B, in.Key["sk"].B, in.Item["sk"].B,
	} {
		if _, id, ok := bytes.Cut(key, []byte("#")); ok {
			ids = append(ids, string(id))
		}
	}
	return ids
}

// idsOfExecution reads the execution's name, and what its input says.
func idsOfExecution(body []byte) []string {
	var in struct{ Name, Input, ExecutionARN string }
	if json.Unmarshal(body, &in) != nil {
		return nil
	}
	if at := strings.LastIndexByte(in.ExecutionARN, ':'); at >= 0 {
		return []string{in.ExecutionARN[at+1:]}
	}
	ids := []string{in.Name}
	var tick sfn.Tick
	if json.Unmarshal([]byte(in.Input), &tick) != nil {
		return ids
	}
	ids = append(ids, tick.Operation)
	if key, err := tick.Key(); err == nil {
		ids = append(ids, key.InstanceID, key.BindingID)
	}
	return ids
}
