package broker

import "github.com/ferry-broker/ferry/internal/lifecycle"

// Key names a record. IDs are opaque bytes chosen by platforms (any UTF-8 or not,
// '#' and '/' included) and are compared byte for byte.
type Key struct {
	// Client is the configured client's name, [a-z0-9-]{1,40}.
	Client     string
	InstanceID string
	// BindingID is empty for the record of a service instance.
	BindingID string
}

// Instance returns the key of the service instance that k belongs to.
func (k Key) Instance() Key { return Key{Client: k.Client, InstanceID: k.InstanceID} }

// Kind says whether k names an instance or a binding.
func (k Key) Kind() lifecycle.Kind {
	if k.BindingID == "" {
		return lifecycle.Instance
	}
	return lifecycle.Binding
}
