package cf

import (
	"regexp"
	"strings"

	"github.com/cloudfoundry/go-cfclient/v3/resource"

	"github.com/ferry-broker/ferry/internal/broker"
)

// failure is one error of a job (docs/cf-contract.md 2.5).
type failure struct {
	text        string
	brokersWord bool
	code        broker.Code
}

// Texts of failures.
const (
	// lastOperationClass is what a key's job says when the backing broker reported a
	// failure later on.
	lastOperationClass = "VCAP::CloudController::V3::LastOperationFailedState"
	requiresApp        = "This service supports generation of credentials through binding an application only."
	namedInstance      = "Service instance "
	unbindWrapper      = "Service broker failed to delete service binding for instance "
)

var (
	// wrapped matches how Cloud Foundry says what it was doing when it failed.
	wrapped = regexp.MustCompile(`^(provision|create managed|create|update|delete|bind|unbind) could not be completed: `)
	// rubyClass matches the start of an exception's text, a database's as a rule.
	rubyClass = regexp.MustCompile(`^[A-Z]\w*(::[A-Z]\w*)+`)
)

// brokersSentences begin what a backing broker answered to a request.
func brokersSentences() []string {
	return []string{"Service broker error: ", "The service broker rejected the request", requiresApp}
}

// ownSentences begin what Cloud Foundry says of conflicts, of brokers that did not
// answer, and of its own troubles.
func ownSentences() []string {
	return []string{
		"An operation for a service binding of service instance ",
		"An operation for service instance ",
		"delete in progress",
		unbindWrapper,
		"The service broker could not be reached",
		"The request to the service broker timed out",
		"The service broker returned an invalid response",
		"The service broker could not perform this operation in parallel",
		"The service broker reported an error during deprovisioning",
		"Authentication with the service broker failed",
		"Resource conflict",
		"Service Broker failed to ",
		"The service instance could not be found",
		"The binding could not be found",
		"Operation was stuck",
	}
}

// readFailure takes an error of a job apart. What a backing broker says when an
// asynchronous operation fails follows the wrapper as it is, without any sign; so
// its word is what is in the wrapper and not one of Cloud Foundry's own sentences.
func readFailure(e resource.CloudFoundryError) failure {
	match := wrapped.FindStringSubmatch(e.Detail)
	if match == nil || e.Code != codeUnableToPerform {
		return failure{text: withoutClass(e.Detail)}
	}
	text := strings.TrimPrefix(e.Detail, match[0])
	said := text
	// Of a key's own deletion the second is what its broker said; in an instance's it
	// is a key that stood in the way.
	if strings.HasPrefix(text, namedInstance) || (match[1] == "unbind" && strings.HasPrefix(text, unbindWrapper)) {
		said = behindName(text)
	}
	if said == "" || cloudFoundrysOwn(said) {
		return failure{text: withoutClass(text)}
	}
	f := failure{text: withoutClass(said), brokersWord: true}
	if said == requiresApp {
		f.code = broker.CodeRequiresApp
	}
	return f
}

// behindName returns the sentence that follows the name of an instance. A name may
// be anything, so known sentences are looked for; without one, text is returned.
func behindName(text string) string {
	first := len(text)
	for _, sentence := range append(brokersSentences(), ownSentences()...) {
		if i := strings.Index(text, ": "+sentence); i >= 0 && i < first {
			first = i
		}
	}
	if first == len(text) {
		return text
	}
	return text[first+len(": "):]
}

func cloudFoundrysOwn(text string) bool {
	for _, sentence := range ownSentences() {
		if strings.HasPrefix(text, sentence) {
			return true
		}
	}
	return rubyClass.MatchString(text) && text != lastOperationClass
}

// withoutClass empties a text that is but the name of a class: the row's last
// operation knows the reason.
func withoutClass(text string) string {
	if text == lastOperationClass {
		return ""
	}
	return text
}
