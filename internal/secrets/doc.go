// Package secrets reads the configuration from AWS Secrets Manager: the same YAML
// that `ferry serve` reads from a file.
//
// A function lives for hours, and passwords are changed meanwhile: the text is read
// again when it has reached an age, without a restart. What cannot be read, or is no
// configuration, replaces nothing: the last good copy stays in use, and the log says so.
package secrets
