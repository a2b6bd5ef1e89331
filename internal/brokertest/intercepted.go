package brokertest

import (
	"context"

	"github.com/ferry-broker/ferry/internal/broker"
)

// Look is a look-up, and Call a POST, PATCH or DELETE, as an Intercepted's Backend would carry it out.
type (
	Look func(context.Context) (broker.Look, error)
	Call func(context.Context) (broker.Answer, error)
)

// Intercepted is a Backend whose look-ups and calls go through a test's hands, to watch, delay, change or answer them.
type Intercepted struct {
	broker.Backend
	// Look answers look-ups, and Call calls: each is told the name of the method, what is asked for, and what the
	// Backend would do. Of a call about a key it is told nothing more. Nil: the Backend answers.
	Look func(ctx context.Context, method string, q broker.Lookup, look Look) (broker.Look, error)
	Call func(ctx context.Context, method string, c broker.InstanceCall, call Call) (broker.Answer, error)
}

func (i *Intercepted) look(ctx context.Context, method string, q broker.Lookup, look Look) (broker.Look, error) {
	if i.Look == nil {
		return look(ctx)
	}
	return i.Look(ctx, method, q, look)
}

func (i *Intercepted) call(ctx context.Context, method string, c broker.InstanceCall, call Call) (broker.Answer, error) {
	if i.Call == nil {
		return call(ctx)
	}
	return i.Call(ctx, method, c, call)
}

// FindInstances implements broker.Backend.
func (i *Intercepted) FindInstances(ctx context.Context, q broker.Lookup) (broker.Look, error) {
	return i.look(ctx, "FindInstances", q, func(ctx context.Context) (broker.Look, error) {
		return i.Backend.FindInstances(ctx, q)
	})
}

// FindInstance implements broker.Backend.
func (i *Intercepted) FindInstance(ctx context.Context, guid, offering string) (broker.Look, error) {
	return i.look(ctx, "FindInstance", broker.Lookup{GUIDs: []string{guid}, Offering: offering}, func(ctx context.Context) (broker.Look, error) {
		return i.Backend.FindInstance(ctx, guid, offering)
	})
}

// FindKeys implements broker.Backend.
func (i *Intercepted) FindKeys(ctx context.Context, q broker.Lookup) (broker.Look, error) {
	return i.look(ctx, "FindKeys", q, func(ctx context.Context) (broker.Look, error) {
		return i.Backend.FindKeys(ctx, q)
	})
}

// CreateInstance implements broker.Backend.
func (i *Intercepted) CreateInstance(ctx context.Context, c broker.InstanceCall) (broker.Answer, error) {
	return i.call(ctx, "CreateInstance", c, func(ctx context.Context) (broker.Answer, error) {
		return i.Backend.CreateInstance(ctx, c)
	})
}

// UpdateInstance implements broker.Backend.
func (i *Intercepted) UpdateInstance(ctx context.Context, guid string, c broker.InstanceCall) (broker.Answer, error) {
	return i.call(ctx, "UpdateInstance", c, func(ctx context.Context) (broker.Answer, error) {
		return i.Backend.UpdateInstance(ctx, guid, c)
	})
}

// DeleteInstance implements broker.Backend.
func (i *Intercepted) DeleteInstance(ctx context.Context, guid string) (broker.Answer, error) {
	return i.call(ctx, "DeleteInstance", broker.InstanceCall{}, func(ctx context.Context) (broker.Answer, error) {
		return i.Backend.DeleteInstance(ctx, guid)
	})
}

// CreateKey implements broker.Backend.
func (i *Intercepted) CreateKey(ctx context.Context, c broker.KeyCall) (broker.Answer, error) {
	return i.call(ctx, "CreateKey", broker.InstanceCall{}, func(ctx context.Context) (broker.Answer, error) {
		return i.Backend.CreateKey(ctx, c)
	})
}

// DeleteKey implements broker.Backend.
func (i *Intercepted) DeleteKey(ctx context.Context, guid string) (broker.Answer, error) {
	return i.call(ctx, "DeleteKey", broker.InstanceCall{}, func(ctx context.Context) (broker.Answer, error) {
		return i.Backend.DeleteKey(ctx, guid)
	})
}
