package brokertest_test

import (
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/brokertest"
)

func TestFakeCloud(t *testing.T) {
	t.Parallel()
	brokertest.TestBackend(t, func(*testing.T) brokertest.BackendHarness {
		cloud := brokertest.NewFakeCloud(brokertest.CloudOptions{Now: time.Now, SlowFor: 30 * time.Millisecond})
		rename := func(_ *testing.T, guid, name string) { cloud.Rename(guid, name) }
		return brokertest.BackendHarness{
			Backend: cloud, Rename: rename, RenameKey: rename,
			Offering: brokertest.OfferingDB, Plan: brokertest.PlanSmall, Other: brokertest.PlanLarge,
			Slow: brokertest.PlanSlow, AppOnly: brokertest.PlanAppOnly,
			RejectingOffering: brokertest.OfferingBroken, Rejecting: brokertest.PlanRejecting,
			BigNumber: brokertest.BigNumber, Patience: 10 * time.Second,
		}
	})
}

func TestMemoryStore(t *testing.T) {
	t.Parallel()
	brokertest.TestStore(t, func(_ *testing.T, now func() time.Time) brokertest.Store {
		return brokertest.NewMemoryStore(now)
	})
}

func TestMemoryRoundStore(t *testing.T) {
	t.Parallel()
	brokertest.TestRoundStore(t, brokertest.NewMemoryStore(time.Now))
}
