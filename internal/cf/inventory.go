package cf

import (
	"context"
	"net/url"
	"slices"

	"github.com/ferry-broker/ferry/internal/broker"
)

// instancesAtOnce is how many GUIDs a filter of keys names.
const instancesAtOnce = 50

// Marked returns every instance of the org with this client's marks, and the keys of
// those that have them too. What has a name that does not tell its OSB id is left
// out, and logged. It takes one call, and one for each fifty instances.
func (b *Backend) Marked(ctx context.Context) ([]broker.Marked, error) {
	rows, err := b.instances(ctx, "list marked instances", url.Values{
		"label_selector": {labelClient + "=" + clientLabel(b.config.Client)}, "per_page": {"1000"},
	})
	if err != nil {
		return nil, err
	}
	var list []broker.Marked
	for _, i := range rows {
		row := b.instanceRow(i.instanceRow, i.header)
		if id, ok := idOf(i.Name, i.Metadata); row.Marked && ok {
			list = append(list, marked(broker.Key{InstanceID: id}, row))
		} else if row.Marked {
			b.unreadable(ctx, "instance", i.GUID, i.Name)
		}
	}
	for some := range slices.Chunk(slices.Clone(list), instancesAtOnce) {
		keys, err := b.markedKeys(ctx, some)
		if err != nil {
			return nil, err
		}
		list = append(list, keys...)
	}
	return list, nil
}

func (b *Backend) markedKeys(ctx context.Context, instances []broker.Marked) (found []broker.Marked, err error) {
	ids := map[string]string{} // by GUID
	guids := make([]string, len(instances))
	for i, m := range instances {
		ids[m.GUID], guids[i] = m.Key.InstanceID, m.GUID
	}
	r := request{
		path: keysRoute, what: "list keys of marked instances",
		query: url.Values{"service_instance_guids": {list(guids...)}, "type": {"key"}, "per_page": {"1000"}},
	}
	err = pages(ctx, b, r, func(p page[keyRow]) {
		for _, k := range p.Resources {
			instance, known := ids[k.instanceGUID()]
			row := b.keyRow(k, p.header)
			if !known || !row.Marked || k.Name == nil {
				continue
			}
			if id, ok := bindingIDOf(k, row); ok {
				found = append(found, marked(broker.Key{InstanceID: instance, BindingID: id}, row))
			} else {
				b.unreadable(ctx, "key", k.GUID, *k.Name)
			}
		}
	})
	return found, err
}

// bindingIDOf returns the OSB id that a marked key stands for.
func bindingIDOf(k keyRow, row broker.Row) (string, bool) {
	if !row.Loose {
		return idOf(*k.Name, k.Metadata)
	}
	loose, ok := readLooseKey(*k.Name)
	if !ok {
		return "", false
	}
	return idOf(loose.stem, k.Metadata)
}

func (b *Backend) unreadable(ctx context.Context, kind, guid, name string) {
	b.config.Logger.InfoContext(ctx, "a marked row is left out: its name does not tell its id", "kind", kind, "guid", guid, "name", name)
}

func marked(key broker.Key, row broker.Row) broker.Marked {
	return broker.Marked{Key: key, GUID: row.GUID, Operation: row.Operation, Seq: row.Seq}
}
