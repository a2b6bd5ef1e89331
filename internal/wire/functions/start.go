package functions

import (
	"io"

	"github.com/aws/aws-lambda-go/lambda"
)

// StartAPI serves the events of the REST API until Lambda ends the process. It
// returns only when the environment is wrong.
func StartAPI(lookupEnv func(string) (string, bool), log io.Writer) error {
	a, err := NewAPI(lookupEnv, log)
	if err != nil {
		return err
	}
	lambda.Start(a.Handle)
	return nil
}

// StartPoller serves the tasks of the state machine, as StartAPI does.
func StartPoller(lookupEnv func(string) (string, bool), log io.Writer) error {
	p, err := NewPoller(lookupEnv, log)
	if err != nil {
		return err
	}
	lambda.Start(p.Handle)
	return nil
}

// StartJanitor serves the events of the schedule, as StartAPI does.
func StartJanitor(lookupEnv func(string) (string, bool), log io.Writer) error {
	j, err := NewJanitor(lookupEnv, log)
	if err != nil {
		return err
	}
	lambda.Start(j.Handle)
	return nil
}
