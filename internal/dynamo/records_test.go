package dynamo

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// epoch lies ahead, so that the stand-in's TTL has nothing to do.
var epoch = time.Date(2061, time.May, 4, 10, 20, 30, 400, time.UTC)

func atEpoch() time.Time { return epoch }

func keyOf(id string) broker.Key { return broker.Key{Client: "cluster-a", InstanceID: id} }

func ready(key broker.Key, token string) broker.Record {
	return broker.Record{Key: key, Token: token, Lifecycle: lifecycle.Record{Kind: key.Kind(), State: lifecycle.Ready, Seq: 1}}
}

const guid = "0b4ddf28-1a5c-4d2e-9a47-6f1a2b3c4d5e"

// claimed is a create as the broker claims it: everything as long as it is in life.
func claimed(key broker.Key) broker.Record {
	digest := strings.Repeat("d", 43)
	op := lifecycle.Operation{
		ID: "create-" + strings.Repeat("x", 26), Seq: 2881736430, Verb: lifecycle.Create, IDWasFree: true,
		Started: epoch, Deadline: epoch.Add(7 * 24 * time.Hour), Due: epoch.Add(2 * time.Minute),
	}
	return broker.Record{
		Key: key, Token: strings.Repeat("t", 26),
		Lifecycle: lifecycle.Record{
			Kind: key.Kind(), State: lifecycle.Creating, Seq: op.Seq, Operation: op,
			CreateOp: lifecycle.Reference{ID: op.ID, Seq: op.Seq},
		},
		Attributes: broker.Attributes{
			ServiceID: guid, PlanID: guid, OfferingName: "postgres", PlanGUID: guid, Parameters: digest, Owner: digest,
		},
		Salt:       []byte(strings.Repeat("s", 16)),
		Parameters: []byte(`{"size":"small","version":16}`),
		Context: []byte(`{"platform":"kubernetes","namespace":"team-blue","clusterid":"` + guid +
			`","instance_name":"my-database"}`),
		OriginatingIdentity: "kubernetes " + strings.Repeat("eyJ1c2Vy", 20),
	}
}

// running is the record between two looks of the poller; done when it ended.
func running(key broker.Key) broker.Record {
	r := claimed(key)
	r.Parameters = nil
	op := &r.Lifecycle.Operation
	op.Calls, op.Answered, op.Job, op.Due = 1, 1, guid, op.Due.Add(time.Minute)
	op.Lease = lifecycle.Lease{Holder: strings.Repeat("h", 26), Until: epoch.Add(time.Minute)}
	return r
}

func done(key broker.Key) broker.Record {
	r := running(key)
	l := &r.Lifecycle
	l.State, l.CFGUID, l.Operation.Lease = lifecycle.Ready, guid, lifecycle.Lease{}
	l.Finished = []lifecycle.Finished{{ID: l.Operation.ID, Verb: lifecycle.Create, Succeeded: true, EndedAt: epoch}}
	r.DashboardURL = "https://dashboard.example.org/" + guid
	return r
}

// noise is n bytes that do not compress, the same for the same seed.
func noise(seed uint64, n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(seed)}).Read(b) // it never fails
	return b
}

func catalogOf(seed uint64, n int) broker.StoredCatalog {
	return broker.StoredCatalog{Client: "cluster-a", Fetched: epoch, Body: noise(seed, n)}
}

// noiseOf reports whose noise it is, or that it is nobody's.
func noiseOf(b []byte, seeds uint64) (uint64, error) {
	for seed := range seeds {
		if bytes.Equal(b, noise(seed, len(b))) {
			return seed, nil
		}
	}
	return 0, fmt.Errorf("%d bytes that nobody wrote", len(b))
}
