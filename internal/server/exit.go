package server

import (
	"errors"
	"fmt"
)

// The exit codes that scripts rely on.
const (
	ExitFailure = 1
	ExitUsage   = 2
)

// ExitError ends the process with a code and a sentence for the person who started it.
type ExitError struct {
	Code    int
	Message string
	Cause   error
}

// Error returns the sentence.
func (e *ExitError) Error() string { return e.Message }

// Unwrap returns what was behind it.
func (e *ExitError) Unwrap() error { return e.Cause }

// ExitCode returns the code that err asks for: 0 for nil, 1 for what is no ExitError.
func ExitCode(err error) int {
	if err == nil {
		return 0
	}
	if e, ok := errors.AsType[*ExitError](err); ok {
		return e.Code
	}
	return ExitFailure
}

func usage(format string, args ...any) error {
	return &ExitError{Code: ExitUsage, Message: fmt.Sprintf(format, args...)}
}

func failure(cause error, format string, args ...any) error {
	return &ExitError{Code: ExitFailure, Message: fmt.Sprintf(format, args...), Cause: cause}
}
