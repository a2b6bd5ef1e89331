package brokertest_test

import (
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/brokertest"
)

func TestMemoryStore(t *testing.T) {
	t.Parallel()
	brokertest.TestStore(t, func(_ *testing.T, now func() time.Time) brokertest.Store {
		return brokertest.NewMemoryStore(now)
	})
}
