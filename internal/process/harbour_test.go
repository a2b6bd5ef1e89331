package process

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// harbour holds one broker that is killed and started again, on one data folder,
// with its Cloud Foundry behind a strait.
type harbour struct {
	config, data string
	door         *door
	strait       *strait
	tally        *tally
	random       *rand.Rand // of the killer

	mu      sync.Mutex
	program *program
	kills   int
	hits    hits
}

// hits say what the kills met.
type hits struct {
	whileStarting, beforeAnswer, duringWrite, duringRead, withOperations, idle int
}

func (h *hits) add(o hits) {
	h.whileStarting += o.whileStarting
	h.beforeAnswer += o.beforeAnswer
	h.duringWrite += o.duringWrite
	h.duringRead += o.duringRead
	h.withOperations += o.withOperations
	h.idle += o.idle
}

// sail starts the broker and kills it n times at moments that the seed decides. It
// leaves a running one behind.
func (h *harbour) sail(ctx context.Context, n int) error {
	for range n {
		if err := h.launch(); err != nil {
			return err
		}
		if h.random.IntN(10) == 0 { // a process that dies before it is ready
			if err := wait(ctx, time.Duration(h.random.IntN(60))*time.Millisecond); err != nil {
				return err
			}
			h.kill()
			continue
		}
		if err := h.ready(ctx); err != nil {
			return err
		}
		if err := h.killSomewhere(ctx); err != nil {
			return err
		}
	}
	if err := h.launch(); err != nil {
		return err
	}
	return h.ready(ctx)
}

func (h *harbour) launch() error {
	p, err := launch("serve", "--config", h.config, "--data", h.data, "--listen", "127.0.0.1:0", "--log-format", "json", "--log-level", "info")
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.program = p
	return nil
}

// ready waits until the broker listens.
func (h *harbour) ready(ctx context.Context) error {
	entry, err := h.current().out.find(ctx, brokerListens)
	if err != nil {
		return err
	}
	if resumed, _ := entry["resumed_operations"].(float64); resumed > 0 && h.kills > 0 {
		h.hits.withOperations++
	}
	url, _ := entry["url"].(string)
	h.door.open(url)
	return nil
}

func (h *harbour) current() *program {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.program
}

// killSomewhere kills after a while, or at a call to Cloud Foundry: as it arrives
// there, or when its answer is on its way back.
func (h *harbour) killSomewhere(ctx context.Context) error {
	uptime := time.Duration(100+h.random.IntN(500)) * time.Millisecond
	if h.random.IntN(3) == 0 {
		if err := wait(ctx, uptime); err != nil {
			return err
		}
		h.kill()
		return nil
	}
	methods := []string{http.MethodPost, http.MethodPost, http.MethodPatch, http.MethodDelete, http.MethodGet, ""}
	t := &trap{
		method: methods[h.random.IntN(len(methods))], skip: h.random.IntN(4), answer: h.random.IntN(2) == 0,
		lost: h.random.IntN(2) == 0, delay: time.Duration(h.random.IntN(400)) * time.Millisecond,
		kill: h.kill, sprung: make(chan struct{}),
	}
	h.strait.set(t)
	select {
	case <-t.sprung:
		return nil
	case <-time.After(2 * uptime):
	case <-ctx.Done():
		return ctx.Err()
	}
	if h.strait.set(nil) {
		h.kill() // no such call came
		return nil
	}
	<-t.sprung
	return nil
}

// kill kills, and notes what that met.
func (h *harbour) kill() {
	listened := h.door.url.Load() != nil
	held := h.tally.inFlight.Load()
	h.door.shut() // before its port can be somebody else's
	h.current().kill()
	writes, reads := h.strait.nextGeneration()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.kills++
	switch {
	case !listened:
		h.hits.whileStarting++
	case held > 0:
		h.hits.beforeAnswer++
	}
	switch {
	case writes > 0:
		h.hits.duringWrite++
	case reads > 0:
		h.hits.duringRead++
	case listened && held == 0:
		h.hits.idle++
	}
}

func (h *harbour) killCount() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.kills
}

func (h hits) String() string {
	return fmt.Sprintf("%d while it started, %d before a request was answered, %d within a POST, PATCH or DELETE to Cloud Foundry, "+
		"%d within a GET there, %d idle; %d left unfinished operations", h.whileStarting, h.beforeAnswer, h.duringWrite, h.duringRead, h.idle, h.withOperations)
}
