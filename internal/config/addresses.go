package config

import "go.yaml.in/yaml/v4"

// urls reads a list of addresses, each as url demands it; nil when it is absent.
func (o object) urls(key string) []string {
	items, _ := o.list(key)
	var addresses []string
	for _, item := range items {
		s := object{r: o.r, path: item.path, line: item.node.Line, fields: map[string]*yaml.Node{"": item.node}}
		if address := s.url(""); address != "" {
			addresses = append(addresses, address)
		}
	}
	return addresses
}
