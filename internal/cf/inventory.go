package cf

import (
	"context"
	"log/slog"
	"net/url"
	"strconv"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/ccapi"
)

// inventory lists what is there, for the audit and for people.
type inventory struct {
	api       *ccapi.Client
	instances *instances
	keys      *keys
	logger    *slog.Logger
}

// Marked returns every instance of the org with this client's marks, each once, and the keys of those that have them
// too, whatever they are called now. What has lost the annotation that tells an id which could not be a name is left
// out, and logged. It takes one call, and one for each fifty instances or more.
func (n *inventory) Marked(ctx context.Context) ([]broker.Marked, error) {
	marks, err := n.instances.list(ctx, "list marked instances", url.Values{
		"label_selector": {labelClient + "=" + clientLabel(n.instances.rows.client)}, "per_page": {"1000"},
	})
	if err != nil {
		return nil, err
	}
	var list []broker.Marked
	instances := map[string]broker.Marked{} // by GUID
	var guids []string
	for _, i := range marks.rows {
		row := n.instances.row(i.instanceRow, i.header)
		if !row.Marked {
			continue
		}
		id, byName, ok := idOf(i.Name, i.Metadata)
		if !ok {
			n.unreadable(ctx, "instance", i.GUID, i.Name)
			continue
		}
		m := marked(broker.Key{InstanceID: id}, row, byName)
		list, guids, instances[i.GUID] = append(list, m), append(guids, i.GUID), m
	}
	for _, part := range cut(guids, n.instances.room, sizeOf) {
		keys, err := n.markedKeys(ctx, part, instances)
		if err != nil {
			return nil, err
		}
		list = append(list, keys...)
	}
	return list, nil
}

func (n *inventory) markedKeys(ctx context.Context, guids []string, instances map[string]broker.Marked) (found []broker.Marked, err error) {
	r := ccapi.Request{
		Path: keysRoute, What: "list keys of marked instances",
		Query: url.Values{"service_instance_guids": {ccapi.Filter(guids...)}, "type": {"key"}, "per_page": {"1000"}},
	}
	err = ccapi.Pages(ctx, n.api, r, func(p ccapi.Page[keyRow]) error {
		for _, k := range p.Resources {
			instance, known := instances[k.instanceGUID()]
			row := n.keys.row(k, p.Header)
			if !known || !row.Marked || k.Name == nil {
				continue
			}
			if id, byName, ok := bindingIDOf(k, row); ok {
				key := broker.Key{InstanceID: instance.Key.InstanceID, BindingID: id}
				found = append(found, marked(key, row, byName || instance.ByName))
			} else {
				n.unreadable(ctx, "key", k.GUID, *k.Name)
			}
		}
		return nil
	})
	return found, err
}

// bindingIDOf returns the OSB id that a marked key stands for.
func bindingIDOf(k keyRow, row broker.Row) (id string, byName, ok bool) {
	if !row.MarkedByName {
		return idOf(*k.Name, k.Metadata)
	}
	name, ok := readKeyName(*k.Name)
	if !ok {
		return "", false, false
	}
	return idOf(name.stem, k.Metadata)
}

func (n *inventory) unreadable(ctx context.Context, kind, guid, name string) {
	n.logger.InfoContext(ctx, "a marked row is left out: it does not tell its id", "kind", kind, "guid", guid, "name", name)
}

func marked(key broker.Key, row broker.Row, byName bool) broker.Marked {
	return broker.Marked{Key: key, GUID: row.GUID, ByName: byName, Operation: row.Operation, Seq: row.Seq}
}

// ForeignKeys returns the names of the instance's keys that do not carry our marks. It takes one call.
func (n *inventory) ForeignKeys(ctx context.Context, instanceGUID string) ([]string, error) {
	r := ccapi.Request{
		Path:  keysRoute,
		What:  "list keys of instance " + strconv.Quote(instanceGUID),
		Query: url.Values{"service_instance_guids": {ccapi.Filter(instanceGUID)}, "type": {"key"}, "per_page": {"200"}},
	}
	var names []string
	err := ccapi.Pages(ctx, n.api, r, func(p ccapi.Page[keyRow]) error {
		for _, k := range p.Resources {
			if k.Name != nil && !n.keys.row(k, p.Header).Marked {
				names = append(names, *k.Name)
			}
		}
		return nil
	})
	return names, err
}
