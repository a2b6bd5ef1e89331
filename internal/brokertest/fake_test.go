package brokertest_test

import (
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/brokertest"
)

func TestFakeCloud(t *testing.T) {
	t.Parallel()
	brokertest.TestBackend(t, func(*testing.T) brokertest.BackendHarness {
		return brokertest.BackendHarness{
			Backend:  brokertest.NewFakeCloud(brokertest.CloudOptions{Now: time.Now, SlowFor: 30 * time.Millisecond}),
			Offering: brokertest.OfferingDB, Plan: brokertest.PlanSmall, Other: brokertest.PlanLarge,
			Slow: brokertest.PlanSlow, AppOnly: brokertest.PlanAppOnly,
			RejectingOffering: brokertest.OfferingBroken, Rejecting: brokertest.PlanRejecting,
			BigNumber: brokertest.BigNumber, Patience: 10 * time.Second,
		}
	})
}
