package api

import "sync"

// shares bounds the requests under /v2 at once. Without it a burst would hold one body, one connection to the store and
// one goroutine for each request.
//
// There are two pools, because two kinds of request get in each other's way: those that wait for Cloud Foundry, for
// seconds when it is slow, and those that are answered from the store. A request begins in the second pool, and moves
// to the first when its use case says that it is about to wait (broker.BeginWaiting).
type shares struct {
	waiting, quick *pool
}

// newShares divides the limit: half of it is for what waits. Each client's own limit, where it has one, is divided in
// the same way.
func newShares(limit int, clients []Client) shares {
	own := map[string]int{}
	for _, c := range clients {
		if c.ConcurrentRequests > 0 {
			own[c.Name] = c.ConcurrentRequests
		}
	}
	half := func(n int) int { return max(1, n/2) }
	rest := func(n int) int { return max(1, n-n/2) }
	return shares{
		waiting: newPool(half(limit), len(clients), own, half),
		quick:   newPool(rest(limit), len(clients), own, rest),
	}
}

// pool is a number of places, half of them reserved for the clients in equal parts, so that none of them can keep
// another out, and at least one for each; who comes first has the others.
type pool struct {
	reserved int
	own      map[string]int

	mu     sync.Mutex
	common int
	used   map[string]int
}

func newPool(size, clients int, own map[string]int, part func(int) int) *pool {
	clients = max(1, clients)
	p := &pool{reserved: max(1, size/2/clients), own: map[string]int{}, used: map[string]int{}}
	p.common = max(0, size-p.reserved*clients)
	for client, n := range own {
		p.own[client] = part(n)
	}
	return p
}

// enter takes a place, if there is one for this client.
func (p *pool) enter(client string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	used := p.used[client]
	if most, limited := p.own[client]; limited && used >= most {
		return false
	}
	if used >= p.reserved {
		if p.common == 0 {
			return false
		}
		p.common--
	}
	p.used[client]++
	return true
}

// leave gives a place back, first one of those that everybody may have.
func (p *pool) leave(client string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.used[client] > p.reserved {
		p.common++
	}
	p.used[client]--
}

// place is where one request is. It is used by one goroutine.
type place struct {
	shares shares
	client string
	in     *pool
}

// enter begins a request. The error is the answer of one that has no place.
func (s shares) enter(client string) (place, error) {
	if !s.quick.enter(client) {
		return place{}, tooBusy("This broker is at its limit of requests at once, for all clients or for this one, and nothing of this one was carried out.", 1)
	}
	return place{shares: s, client: client, in: s.quick}, nil
}

// BeginWaiting implements broker.Waiter: it moves the request to those that wait for Cloud Foundry. The error is the
// answer of one that may not.
func (p *place) BeginWaiting() error {
	if p.in == p.shares.waiting {
		return nil
	}
	if !p.shares.waiting.enter(p.client) {
		return tooBusy("As many requests wait for Cloud Foundry as may at once, for all clients or for this one, and nothing of this one was carried out.", 5)
	}
	p.in.leave(p.client)
	p.in = p.shares.waiting
	return nil
}

// leave ends the request.
func (p *place) leave() { p.in.leave(p.client) }
