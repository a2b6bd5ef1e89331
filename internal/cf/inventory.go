package cf

import (
	"context"
	"net/url"

	"github.com/ferry-broker/ferry/internal/broker"
)

// Marked returns every instance of the org with this client's marks, and the keys of
// those that have them too.
func (b *Backend) Marked(ctx context.Context) ([]broker.Marked, error) {
	org, err := b.org(ctx)
	if err != nil {
		return nil, err
	}
	r := request{
		path: instancesRoute, what: "list marked instances",
		query: url.Values{"organization_guids": {org}, "label_selector": {labelClient + "=" + clientLabel(b.config.Client)}, "per_page": {"1000"}},
	}
	var list []broker.Marked
	err = pages(ctx, b, r, func(p page[instanceRow]) {
		for _, i := range p.Resources {
			if row := b.instanceRow(i, p.header); row.Marked {
				list = append(list, marked(broker.Key{InstanceID: i.Name}, row))
			}
		}
	})
	for _, m := range list {
		if err != nil {
			return nil, err
		}
		list, err = b.markedKeys(ctx, list, m)
	}
	return list, err
}

func (b *Backend) markedKeys(ctx context.Context, list []broker.Marked, of broker.Marked) ([]broker.Marked, error) {
	r := request{
		path: keysRoute, what: "list keys of a marked instance",
		query: url.Values{"service_instance_guids": {of.GUID}, "type": {"key"}, "per_page": {"1000"}},
	}
	err := pages(ctx, b, r, func(p page[keyRow]) {
		for _, k := range p.Resources {
			if row := b.row(k.facts(), p.header); row.Marked && k.Name != nil {
				list = append(list, marked(broker.Key{InstanceID: of.Key.InstanceID, BindingID: *k.Name}, row))
			}
		}
	})
	return list, err
}

func marked(key broker.Key, row broker.Row) broker.Marked {
	return broker.Marked{Key: key, GUID: row.GUID, Operation: row.Operation, Seq: row.Seq}
}
