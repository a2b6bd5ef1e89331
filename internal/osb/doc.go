// Package osb holds the Open Service Broker API 2.17 as it stands on the wire:
// request and response bodies, error words, header names. It has no behaviour
// beyond encoding.
package osb
