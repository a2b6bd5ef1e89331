// Package process tests ferry as its operators meet it: the built binary, started as a process, killed and started
// again. It has no code of its own.
package process
