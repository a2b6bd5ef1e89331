package cf

import "encoding/json"

// optional is a field of an answer that decides nothing. Missing, null, and a value of
// another type than Cloud Foundry's documentation names count alike as not told: what is
// handed on to a user must not keep the rest from being read. What decides something (a
// GUID, a name, marks, the state of an operation) is never optional, since misreading it
// would pass for absence.
type optional[T any] struct{ value T }

// UnmarshalJSON implements json.Unmarshaler; it never fails.
func (o *optional[T]) UnmarshalJSON(text []byte) error {
	var value T
	if json.Unmarshal(text, &value) == nil {
		o.value = value
	}
	return nil
}

// identity is what every row of a list has.
type identity struct {
	GUID string `json:"guid"`
}

func (i identity) guid() string { return i.GUID }

// identified is a row of a list.
type identified interface{ guid() string }
