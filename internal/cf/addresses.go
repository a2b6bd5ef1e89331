package cf

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/ferry-broker/ferry/internal/ccapi"
)

// A list of many is asked for with as many values in its filters as its address has room for; what does not fit is
// asked for by another list. Proxies refuse addresses of more than 8 KB.
const (
	// maxAddress is how many characters an address has at most, as it is sent: with scheme, host and path, and encoded.
	maxAddress = 8000
	// maxRest is how many of them the path takes with all that is no value of a filter, and the GUID of the org.
	maxRest = 500
)

// The sizes of pages. For what is looked up alone one page is enough; the other size is the largest that Cloud Foundry
// takes (docs/cf-contract.md 1.4).
const (
	smallPage = "200"
	largePage = "5000"
)

func pageFor(several bool) string {
	if several {
		return largePage
	}
	return smallPage
}

// andMore says in an error that a list was asked for by so many look-ups.
func andMore(lookUps int) string { return " and for " + strconv.Itoa(lookUps-1) + " more look-ups" }

// roomIn returns how many characters the values of filters may have in an address of this API.
func roomIn(api string) int { return maxAddress - maxRest - len(strings.TrimRight(api, "/")) }

// sizeOf returns how many characters a value has in an address: in a filter it is encoded (see ccapi.Filter), and in a
// query once more.
func sizeOf(value string) int { return len(url.QueryEscape(ccapi.Filter(value))) + len("%2C") }

// cut divides what goes into filters into lists that fit into the room, each with at least one value.
func cut[V any](values []V, room int, size func(V) int) (lists [][]V) {
	left := 0
	for _, v := range values {
		if left -= size(v); left < 0 {
			lists, left = append(lists, nil), room-size(v)
		}
		lists[len(lists)-1] = append(lists[len(lists)-1], v)
	}
	return lists
}
