package dynamo

import (
	"bytes"
	"fmt"
	"math/big"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// item is what DynamoDB stores. What is empty is left out.
type item map[string]types.AttributeValue

func number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

// raw copies, so that what is sent, and answered from, is no longer the caller's.
func raw(b []byte) types.AttributeValue { return &types.AttributeValueMemberB{Value: bytes.Clone(b)} }

func (it item) setRaw(name string, b []byte) {
	if len(b) > 0 {
		it[name] = raw(b)
	}
}

func (it item) setText(name, s string) { it[name] = &types.AttributeValueMemberS{Value: s} }

// raw returns nil for none.
func (it item) raw(name string) []byte {
	if v, ok := it[name].(*types.AttributeValueMemberB); ok && len(v.Value) > 0 {
		return v.Value
	}
	return nil
}

func (it item) text(name string) string {
	if v, ok := it[name].(*types.AttributeValueMemberS); ok {
		return v.Value
	}
	return ""
}

// number returns 0 for none.
func (it item) number(name string) (int64, error) {
	v, ok := it[name].(*types.AttributeValueMemberN)
	if !ok {
		return 0, nil
	}
	n, err := strconv.ParseInt(v.Value, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: %s: %w", errBadItem, name, err)
	}
	return n, nil
}

// time returns the zero time for none.
func (it item) time(name string) (time.Time, error) {
	v, ok := it[name].(*types.AttributeValueMemberN)
	if !ok {
		return time.Time{}, nil
	}
	t, err := parseInstant(v.Value)
	if err != nil {
		return time.Time{}, fmt.Errorf("%s: %w", name, err)
	}
	return t, nil
}

func (it item) place() place { return place{pk: it.raw(attrPK), sk: it.raw(attrSK)} }

// instant is a time as a number that DynamoDB compares exactly: seconds since 1970,
// with nine decimals (numbers keep 38 digits).
func instant(t time.Time) types.AttributeValue {
	n := big.NewInt(t.Unix())
	n.Mul(n, big.NewInt(int64(time.Second)))
	n.Add(n, big.NewInt(int64(t.Nanosecond())))
	seconds := new(big.Rat).SetFrac(n, big.NewInt(int64(time.Second)))
	return &types.AttributeValueMemberN{Value: seconds.FloatString(9)}
}

// parseInstant reads a number as DynamoDB gives it back: without trailing zeros.
func parseInstant(s string) (time.Time, error) {
	seconds, ok := new(big.Rat).SetString(s)
	if !ok {
		return time.Time{}, fmt.Errorf("%w: time %.40q", errBadItem, s)
	}
	seconds.Mul(seconds, big.NewRat(int64(time.Second), 1))
	whole, nanos := new(big.Int).DivMod(seconds.Num(), big.NewInt(int64(time.Second)), new(big.Int))
	if !seconds.IsInt() || !whole.IsInt64() {
		return time.Time{}, fmt.Errorf("%w: time %.40q", errBadItem, s)
	}
	return time.Unix(whole.Int64(), nanos.Int64()).UTC(), nil
}

// nextSecond is the first full second not before t.
func nextSecond(t time.Time) types.AttributeValue {
	seconds := t.Unix()
	if t.Nanosecond() > 0 {
		seconds++
	}
	return number(seconds)
}
