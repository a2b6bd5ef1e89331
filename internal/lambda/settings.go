package lambda

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
)

// settings are what template.yaml puts into a function's environment.
type settings struct {
	table, stateMachine, secret string
	// version is the stack's, for people; it decides nothing.
	version string
	// maxAge is how old the configuration may grow before it is read again.
	maxAge time.Duration
	level  slog.Level
	aws    aws.Config
}

// readSettings reports everything that is missing or wrong at once.
func readSettings(lookupEnv func(string) (string, bool)) (settings, error) {
	var s settings
	var faults []error
	need := func(name string) string {
		value, _ := lookupEnv(name)
		if value == "" {
			faults = append(faults, fmt.Errorf("%s is missing", name))
		}
		return value
	}
	s.table, s.stateMachine, s.secret = need("FERRY_TABLE"), need("FERRY_STATE_MACHINE_ARN"), need("FERRY_CONFIG_SECRET_ARN")
	s.aws.Region = need("AWS_REGION")
	if level, _ := lookupEnv("FERRY_LOG_LEVEL"); level != "" {
		if err := s.level.UnmarshalText([]byte(level)); err != nil {
			faults = append(faults, fmt.Errorf("FERRY_LOG_LEVEL %q is none of debug, info, warn and error", level))
		}
	}
	if age, _ := lookupEnv("FERRY_CONFIG_MAX_AGE"); age != "" {
		var err error
		if s.maxAge, err = time.ParseDuration(age); err != nil || s.maxAge <= 0 {
			faults = append(faults, fmt.Errorf("FERRY_CONFIG_MAX_AGE %q is no duration above zero, such as 1m", age))
		}
	}
	s.version, _ = lookupEnv("FERRY_VERSION")
	completeAWS(&s.aws, lookupEnv)
	if len(faults) > 0 {
		return settings{}, fmt.Errorf("the function's environment: %w", errors.Join(faults...))
	}
	return s, nil
}

// completeAWS takes what Lambda hands to every function. The SDK's own config package
// would look for profiles, SSO and instance roles as well, which no function has, at
// the price of a fifth of the binary (docs/adr/0014-functions-on-aws.md).
func completeAWS(c *aws.Config, lookupEnv func(string) (string, bool)) {
	c.HTTPClient = awshttp.NewBuildableClient()
	c.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		id, _ := lookupEnv("AWS_ACCESS_KEY_ID")
		secret, _ := lookupEnv("AWS_SECRET_ACCESS_KEY")
		token, _ := lookupEnv("AWS_SESSION_TOKEN")
		if id == "" || secret == "" {
			return aws.Credentials{}, errors.New("the environment holds no AWS credentials")
		}
		return aws.Credentials{AccessKeyID: id, SecretAccessKey: secret, SessionToken: token, Source: "environment"}, nil
	})
	if endpoint, _ := lookupEnv("AWS_ENDPOINT_URL"); endpoint != "" {
		c.BaseEndpoint = new(endpoint)
	}
}
