package cf

import (
	"context"
	"net/url"
	"strconv"
)

// ForeignKeys returns the names of the instance's keys that do not carry our marks.
// It takes one call.
func (b *Backend) ForeignKeys(ctx context.Context, instanceGUID string) ([]string, error) {
	r := request{
		path:  keysRoute,
		what:  "list keys of instance " + strconv.Quote(instanceGUID),
		query: url.Values{"service_instance_guids": {list(instanceGUID)}, "type": {"key"}, "per_page": {"200"}},
	}
	var names []string
	err := pages(ctx, b, r, func(p page[keyRow]) {
		for _, k := range p.Resources {
			if k.Name != nil && !b.keyRow(k, p.header).Marked {
				names = append(names, *k.Name)
			}
		}
	})
	return names, err
}
