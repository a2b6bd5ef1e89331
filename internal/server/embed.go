package server

import (
	"context"
	"net/http"

	"github.com/ferry-broker/ferry/internal/bolt"
)

// nowhere is no address that anybody else could reach: who may call an embedded
// broker is for its embedder to say, so that the demo client may be served.
const nowhere = "127.0.0.1:0"

// Embed runs the broker as Serve does, but opens no address for it: answer is called
// with the handler, which may be used concurrently, and with the simulator's URL
// (empty without Simulate). The broker lives until answer returns, and is closed
// before Embed does. Listen, Started and Hint are not looked at. Errors are
// *ExitError, or answer's.
func Embed(ctx context.Context, o ServeOptions, answer func(handler http.Handler, simulatorURL string) error) error {
	o.Listen = nowhere
	c, err := o.configuration()
	if err != nil {
		return err
	}
	return o.withStore(ctx, func(store *bolt.Store) error {
		return o.withSimulator(ctx, &c, func(simulatorURL string) error {
			p, err := newProcess(c, store, o)
			if err != nil {
				return err
			}
			return p.live(ctx, func(int) error { return answer(p.server.Handler, simulatorURL) })
		})
	})
}
