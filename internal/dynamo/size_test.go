package dynamo

import (
	"errors"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/ferry-broker/ferry/internal/broker"
)

func TestSize(t *testing.T) {
	t.Parallel()
	t.Run("what is over the limit is refused with the limit and without a call", func(t *testing.T) {
		t.Parallel()
		s := offlineStore(t, offline(t, func(string, int) *http.Response { return nil }))
		r := claimed(keyOf("i"))
		for _, grow := range []func(*broker.Record){
			func(r *broker.Record) { r.Parameters = noise(1, MaxRecordBytes) },
			func(r *broker.Record) { r.Context = noise(1, MaxRecordBytes) },
			func(r *broker.Record) { r.DashboardURL = strings.Repeat("u", MaxRecordBytes) },
		} {
			large := r
			grow(&large)
			_, err := s.Put(t.Context(), large, 0)
			limit, ok := errors.AsType[*broker.LimitError](err)
			if !ok || limit.Bytes != MaxRecordBytes {
				t.Errorf("Put: %v; want a LimitError of %d bytes", err, MaxRecordBytes)
			}
		}
	})
	t.Run("a record that just fits is taken", func(t *testing.T) {
		t.Parallel()
		table, _ := newTable(t)
		s := on(t, table, atEpoch, newLine())
		mustHold(t, s, mustPut(t, s, filled(t, MaxRecordBytes), 0))
		if _, err := s.Put(t.Context(), filled(t, MaxRecordBytes+1), 1); !errors.Is(err, broker.ErrTooLarge) {
			t.Errorf("Put of one byte more: %v; want ErrTooLarge", err)
		}
	})
	t.Run("the size is DynamoDB's, or a few bytes more", func(t *testing.T) {
		t.Parallel()
		table, _ := newTable(t)
		for name, r := range format1Fixtures() {
			it, err := encode(r, []byte("0123456789abcdef"))
			if err != nil {
				t.Fatal(err)
			}
			delete(it, attrDueShard) // so that the index costs nothing
			told := sizeOf(t, table, it)
			if n := it.size(); n < told || n > told+20 {
				t.Errorf("%s: %d bytes; the stand-in says %d", name, n, told)
			}
		}
	})
}

// filled is a record whose item has the size.
func filled(t *testing.T, size int) broker.Record {
	t.Helper()
	r := claimed(keyOf("i"))
	r.Revision, r.Parameters = 1, []byte("x")
	it, err := encode(r, noise(1, 16))
	if err != nil {
		t.Fatal(err)
	}
	r.Parameters = noise(1, size-it.size()+1)
	return r
}

// sizeOf asks the stand-in, which tells kilobytes: the item is made longer, byte by
// byte, until it costs one unit more.
func sizeOf(t *testing.T, table string, it item) int {
	t.Helper()
	const filler = "z"
	client := dynamodb.NewFromConfig(configFor(standIn.URL(t), nil))
	longer := maps.Clone(it)
	units := it.size()/1024 + 1
	for n := units*1024 - it.size() - len(filler); n < 2048; n++ {
		longer[filler] = raw(make([]byte, n))
		out, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{
			TableName: aws.String(table), Item: longer, ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
		})
		if err != nil {
			t.Fatal(err)
		}
		if told := aws.ToFloat64(out.ConsumedCapacity.CapacityUnits); told > float64(units) {
			return units*1024 + 1 - n - len(filler)
		}
	}
	t.Fatal("the stand-in does not charge for size")
	return 0
}
