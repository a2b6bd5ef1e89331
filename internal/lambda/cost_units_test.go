package lambda

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

// attributes are an item as DynamoDB's protocol has it: a type and a value each.
type attributes map[string]map[string]string

// size is what DynamoDB bills an item for: names and values; a number takes a byte
// for two digits and one more.
func (a attributes) size() int {
	n := 0
	for name, value := range a {
		n += len(name)
		for kind, text := range value {
			switch kind {
			case "B":
				raw, _ := base64.StdEncoding.DecodeString(text)
				n += len(raw)
			case "N":
				n += (len(strings.Trim(strings.ReplaceAll(text, ".", ""), "0"))+1)/2 + 1
			default:
				n += len(text)
			}
		}
	}
	return n
}

// key tells items apart.
func (a attributes) key() string { return a["pk"]["B"] + " " + a["sk"]["B"] }

// entry is what the index due holds of an item; nil for nothing.
func (a attributes) entry() attributes {
	if a["due_shard"] == nil || a["due_at"] == nil {
		return nil
	}
	e := attributes{}
	for _, name := range []string{"pk", "sk", "due_shard", "due_at", "operation", "expires"} {
		if a[name] != nil {
			e[name] = a[name]
		}
	}
	return e
}

const (
	readUnit  = 4096
	writeUnit = 1024
)

func units(bytes, unit int) float64 { return max(1, math.Ceil(float64(bytes)/float64(unit))) }

// writeUnits is what it takes to put an item in the place of another, either of which
// may be nil: the larger one of the two counts, and so does what changes in the index.
func writeUnits(old, next attributes) float64 {
	n := units(max(old.size(), next.size()), writeUnit)
	was, is := old.entry(), next.entry()
	switch {
	case was == nil && is == nil, was != nil && is != nil && same(was, is):
		return n
	case was == nil:
		return n + units(is.size(), writeUnit)
	case is == nil:
		return n + units(was.size(), writeUnit)
	case was["due_shard"]["N"] == is["due_shard"]["N"] && was["due_at"]["N"] == is["due_at"]["N"]:
		return n + units(max(was.size(), is.size()), writeUnit)
	default: // another key in the index: the entry is deleted there and written anew
		return n + units(was.size(), writeUnit) + units(is.size(), writeUnit)
	}
}

func same(a, b attributes) bool { return maps.EqualFunc(a, b, maps.Equal) }

// queryUnits is what reading these items together takes.
func queryUnits(items []attributes, consistent bool) float64 {
	bytes := 0
	for _, it := range items {
		bytes += it.size()
	}
	if n := units(bytes, readUnit); consistent {
		return n
	}
	return units(bytes, readUnit) / 2
}

// tally is what something took.
type tally struct {
	calls map[string]int
	// reads and writes are DynamoDB's request units.
	reads, writes float64
	// logged are the bytes that functions wrote.
	logged int
	// invoked counts invocations by function, billed is their time.
	invoked map[string]int
	billed  map[string]time.Duration
	// longest is the longest invocation of the poller.
	longest time.Duration
	// entered are the states that executions entered.
	entered int
}

func newTally() tally {
	return tally{calls: map[string]int{}, invoked: map[string]int{}, billed: map[string]time.Duration{}}
}

// String names the calls in their order of interest.
func (t tally) String() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(t.calls)) {
		parts = append(parts, fmt.Sprintf("%d %s", t.calls[name], name))
	}
	if parts == nil {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}

func (t tally) add(o tally) tally {
	sum := newTally()
	for _, part := range []tally{t, o} {
		for name, n := range part.calls {
			sum.calls[name] += n
		}
		for name, n := range part.invoked {
			sum.invoked[name] += n
		}
		for name, d := range part.billed {
			sum.billed[name] += d
		}
		sum.entered, sum.longest = sum.entered+part.entered, max(sum.longest, part.longest)
		sum.reads, sum.writes, sum.logged = sum.reads+part.reads, sum.writes+part.writes, sum.logged+part.logged
	}
	return sum
}

// TestUnits holds the rules against the examples of DynamoDB's documentation.
func TestUnits(t *testing.T) {
	t.Parallel()
	item := func(bytes int, due string) attributes {
		a := attributes{"body": {"S": strings.Repeat("x", bytes-4)}}
		if due != "" {
			a["due_shard"], a["due_at"] = map[string]string{"N": "1"}, map[string]string{"N": due}
		}
		return a
	}
	tests := map[string]struct{ got, want float64 }{
		"a read of nothing":                      {units(0, readUnit), 1},
		"a read of 4 KB":                         {units(4096, readUnit), 1},
		"a read of a byte more":                  {units(4097, readUnit), 2},
		"a new item of 1 KB":                     {writeUnits(nil, item(1024, "")), 1},
		"a larger one in its place":              {writeUnits(item(1024, ""), item(1025, "")), 2},
		"a smaller one in its place":             {writeUnits(item(1025, ""), item(10, "")), 2},
		"a new item that is in the index":        {writeUnits(nil, item(500, "1.5")), 2},
		"one that leaves the index":              {writeUnits(item(500, "1.5"), item(500, "")), 2},
		"one that moves in the index":            {writeUnits(item(500, "1.5"), item(500, "2.5")), 3},
		"one whose entry stays":                  {writeUnits(item(500, "1.5"), item(600, "1.5")), 1},
		"a query that finds nothing, eventually": {queryUnits(nil, false), 0.5},
		"a query that is strongly consistent":    {queryUnits([]attributes{item(4000, ""), item(4000, "")}, true), 2},
	}
	for name, test := range tests {
		if test.got != test.want {
			t.Errorf("%s takes %v units, want %v", name, test.got, test.want)
		}
	}
	var number attributes
	if err := json.Unmarshal([]byte(`{"n":{"N":"1767225600.000000000"},"b":{"B":"AAAA"}}`), &number); err != nil {
		t.Fatal(err)
	}
	if got := number.size(); got != 1+5+1+3 { // 17672256: eight digits
		t.Errorf("a number and three bytes weigh %d", got)
	}
}
