package dynamo

import (
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/brokertest"
)

func TestStore(t *testing.T) {
	t.Parallel()
	standIn.URL(t)
	brokertest.TestStore(t, func(t *testing.T, now func() time.Time) brokertest.Store {
		table, _ := newTable(t)
		s, err := New(Options{Config: configFor(standIn.URL(t), nil), Table: table, Now: now})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}
