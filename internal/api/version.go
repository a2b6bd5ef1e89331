package api

import (
	"net/http"
	"strings"

	"github.com/ferry-broker/ferry/internal/osb"
)

// version is the release of the specification that Ferry was written for.
const version = "2.17"

// checkVersion applies spec "API Version Header": any 2.x is welcome, because minor
// releases only add (HDR-04). An empty value counts as none (HDR-05).
func checkVersion(e *exchange) error {
	value := strings.TrimSpace(e.request.Header.Get(osb.VersionHeader))
	if value == "" {
		return missingVersion(e.client)
	}
	major, minor, found := strings.Cut(value, ".")
	if !found || !digits(major) || !digits(minor) {
		return badRequest("The header %s must be MAJOR.MINOR, two numbers. Send %s.", osb.VersionName, version)
	}
	if strings.TrimLeft(major, "0") != "2" {
		return unsupportedVersion()
	}
	return nil
}

// missingVersion answers as the client's quirk says: the text of the specification
// has 400, its test suites want 412 (osb-choices C1).
func missingVersion(c Client) error {
	err := badRequest("The header %s is missing. Send it with the value %s.", osb.VersionName, version)
	if c.MissingVersion == http.StatusPreconditionFailed {
		err.status = http.StatusPreconditionFailed
	}
	err.word = "MissingVersion"
	return err
}

func unsupportedVersion() error {
	return &refusal{
		status:      http.StatusPreconditionFailed,
		word:        "UnsupportedVersion",
		description: "This broker speaks version 2 of the Open Service Broker API, not the one in " + osb.VersionName + ". Set the platform to " + version + ".",
	}
}

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}
