package main

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"unsafe"
)

// raw returns the bytes of a value that consists of bytes alone: a state, or a part of one.
func raw[T state | request | tick](v *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v))
}

const (
	stateSize = int(unsafe.Sizeof(state{}))
	groups    = (stateSize + 7) / 8 // of eight bytes
	headSize  = (groups + 7) / 8    // a bit for each group
	perChunk  = 1 << 16             // states of one chunk
	arenaSize = 1 << 22
)

// pack puts the state without its zeros into buf: a bit for each group of eight bytes that is not all zero, then for
// each such group a bit for each byte that is not zero, and these bytes.
func pack(buf []byte, s *state) []byte {
	var padded [8 * groups]byte
	copy(padded[:], raw(s))
	var head [headSize]byte
	buf = append(buf[:0], head[:]...)
	for g := range groups {
		eight := padded[8*g : 8*g+8 : 8*g+8]
		if binary.LittleEndian.Uint64(eight) == 0 {
			continue
		}
		buf[g>>3] |= 1 << (g & 7)
		at := len(buf)
		buf = append(buf, 0)
		for j, b := range eight {
			if b != 0 {
				buf[at] |= 1 << j
				buf = append(buf, b)
			}
		}
	}
	return buf
}

// unpack is the way back.
func unpack(packed []byte) (s state) {
	var padded [8 * groups]byte
	at := headSize
	for g := range groups {
		if packed[g>>3]&(1<<(g&7)) == 0 {
			continue
		}
		bits := packed[at]
		at++
		for j := range 8 {
			if bits&(1<<j) != 0 {
				padded[8*g+j] = packed[at]
				at++
			}
		}
	}
	copy(raw(&s), padded[:])
	return s
}

// table is a set of states in the order in which they were added, each with the one that it was found from. States are
// compared in full: two that share a hash are two.
type table struct {
	seed    maphash.Seed
	slots   []uint64 // number of the state + 1, and above it half of its hash
	arenas  [][]byte
	places  [][]uint64 // arena, and the place in it
	parents [][]uint32
	size    int
	buf     []byte
}

func newTable() *table {
	return &table{seed: maphash.MakeSeed(), slots: make([]uint64, 1<<12)}
}

func (t *table) packed(i uint32) []byte {
	place := t.places[i/perChunk][i%perChunk]
	p := t.arenas[place>>32][uint32(place):]
	return p[2 : 2+int(p[0])+int(p[1])<<8]
}

func (t *table) at(i uint32) state { return unpack(t.packed(i)) }

func (t *table) parent(i uint32) uint32 { return t.parents[i/perChunk][i%perChunk] }

// add returns the state's number, and whether it is new.
func (t *table) add(s *state, parent uint32) (uint32, bool) {
	if 4*t.size > 3*len(t.slots) {
		t.grow()
	}
	t.buf = pack(t.buf, s)
	half := maphash.Bytes(t.seed, t.buf) >> 32
	mask := uint64(len(t.slots) - 1)
	at := half & mask
	for t.slots[at] != 0 {
		if i := uint32(t.slots[at]) - 1; t.slots[at]>>32 == half && bytes.Equal(t.packed(i), t.buf) {
			return i, false
		}
		at = (at + 1) & mask
	}
	t.store(parent)
	t.slots[at] = half<<32 | uint64(t.size)
	return uint32(t.size - 1), true
}

// store keeps what buf holds.
func (t *table) store(parent uint32) {
	if t.size%perChunk == 0 {
		t.places = append(t.places, make([]uint64, 0, perChunk))
		t.parents = append(t.parents, make([]uint32, 0, perChunk))
	}
	if k := len(t.arenas); k == 0 || len(t.arenas[k-1])+len(t.buf)+2 > arenaSize {
		t.arenas = append(t.arenas, make([]byte, 0, arenaSize))
	}
	a, k := len(t.arenas)-1, t.size/perChunk
	t.places[k] = append(t.places[k], uint64(a)<<32|uint64(len(t.arenas[a])))
	t.arenas[a] = append(append(t.arenas[a], byte(len(t.buf)), byte(len(t.buf)>>8)), t.buf...)
	t.parents[k] = append(t.parents[k], parent)
	t.size++
}

func (t *table) grow() {
	slots := make([]uint64, 2*len(t.slots))
	mask := uint64(len(slots) - 1)
	for _, slot := range t.slots {
		if slot == 0 {
			continue
		}
		at := slot >> 32 & mask
		for slots[at] != 0 {
			at = (at + 1) & mask
		}
		slots[at] = slot
	}
	t.slots = slots
}
