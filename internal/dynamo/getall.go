package dynamo

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/ferry-broker/ferry/internal/broker"
)

const (
	// maxBatch is how many keys DynamoDB takes in one call.
	maxBatch = 100
	// maxBatches is how many calls of one GetAll are made side by side.
	maxBatches = 4
)

// GetAll implements broker.Store: strongly consistent reads, a call for each hundred keys and for what DynamoDB left
// out of its answers. One call that fails fails all.
func (s *Store) GetAll(ctx context.Context, keys []broker.Key) ([]broker.Got, error) {
	all, asked := make([]broker.Got, len(keys)), make(map[broker.Key]*broker.Got, len(keys))
	places := make([]itemKey, 0, len(keys))
	for i, key := range keys {
		at, err := recordPlace(key)
		if err == nil {
			places, asked[key] = append(places, at.itemKey()), &all[i]
			err = broker.ErrNotFound // unless its item comes
		}
		all[i].Err = failedGet(key, err)
	}
	answered := func(it item) {
		key, err := it.place().key()
		if got, ok := asked[key]; ok && err == nil {
			got.Record, err = s.living(it)
			got.Err = failedGet(key, err)
		}
	}
	if err := (batches{store: s, each: answered}).read(ctx, places); err != nil {
		return nil, fmt.Errorf("get %d records: %w", len(keys), err)
	}
	return all, nil
}

// batches is how many items are read. Each that is there is handed on, from any goroutine.
type batches struct {
	store *Store
	each  func(item)
}

// read reads the items of all keys, some calls side by side. The first call that fails ends the others.
func (b batches) read(ctx context.Context, keys []itemKey) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	var calls sync.WaitGroup
	free := make(chan struct{}, maxBatches)
	for batch := range slices.Chunk(keys, maxBatch) {
		free <- struct{}{}
		calls.Go(func() {
			defer func() { <-free }()
			if err := b.readOne(ctx, batch); err != nil {
				end(err)
			}
		})
	}
	calls.Wait()
	return context.Cause(ctx)
}

// readOne reads up to maxBatch items. DynamoDB leaves out what is beyond 16 MB or its throughput; that is asked for
// again after a pause, as often as any other call is tried while nothing comes.
func (b batches) readOne(ctx context.Context, keys []itemKey) error {
	s := b.store
	for vain := 0; ; {
		answer, err := s.client.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{
			*s.table: {Keys: keys, ConsistentRead: aws.Bool(true)},
		}}, s.within(ctx))
		if err != nil {
			return err
		}
		for _, it := range answer.Responses[*s.table] {
			b.each(it)
		}
		left := answer.UnprocessedKeys[*s.table].Keys
		if len(left) == 0 {
			return nil
		}
		if vain++; len(left) < len(keys) {
			vain = 0
		}
		if err := b.pause(ctx, vain); err != nil {
			return err
		}
		keys = left
	}
}

// errLeftOut is what DynamoDB calls it when it answers for no key at all, so that the SDK knows it as throttling.
var errLeftOut = &types.ProvisionedThroughputExceededException{Message: aws.String("keys were left unprocessed")}

// pause waits before another try as the SDK does after so many in vain. Its error says that no other is to be made.
func (b batches) pause(ctx context.Context, vain int) error {
	if vain >= maxAttempts {
		return errLeftOut
	}
	o := b.store.client.Options()
	b.store.within(ctx)(&o)
	delay, err := o.Retryer.RetryDelay(vain, errLeftOut)
	if err != nil {
		return err
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
