package stack

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// rules say what programs take that are not here to be asked. Their options are
// those that the pages use, each looked up where the rule says.
var rules = map[string]func(call) error{
	// cmd/svcat/broker/register_cmd.go and cmd/svcat/command/{namespaced,scoped}.go of kubernetes-retired/service-catalog.
	// Its --username and --password are left out: that version encodes both twice, so that the broker is sent
	// something else.
	"svcat": func(c call) error {
		return options(c, 2, "--url=", "--basic-secret=", "--scope=cluster|namespace", "--namespace=", "--skip-tls", "--ca=", "--wait")
	},
	"oc": kubernetes, "kubectl": kubernetes,
	// `cf create-service-broker --help` of version 8: name, username, password, URL.
	"cf":   func(c call) error { return options(c, 5) },
	"curl": func(c call) error { return options(c, 1, "-u=", "-H=", "-X=", "-d=", "-s", "-f", "-i") },
	"git":  func(c call) error { return options(c, 2, "--tags") },
	"rm":   func(c call) error { return options(c, 1) },
	"make": func(c call) error { return hasTarget(c.Args[1:]) },
	"ferry": func(c call) error {
		return options(c, 1, "--config=", "--data=", "--listen=", "--simulate-cf")
	},
}

// options checks that nothing but the given options occurs, and what else stands
// there is at most alone words. "--x=" takes a value, "--x=a|b" one of these.
func options(c call, alone int, known ...string) error {
	for i := 1; i < len(c.Args); i++ {
		arg := c.Args[i]
		if !strings.HasPrefix(arg, "-") {
			if alone--; alone < 0 {
				return fmt.Errorf("%q is one word too many", arg)
			}
			continue
		}
		at := slices.IndexFunc(known, func(o string) bool { name, _, _ := strings.Cut(o, "="); return name == arg })
		if at < 0 {
			return fmt.Errorf("option %s is not among %q", arg, known)
		}
		_, values, takes := strings.Cut(known[at], "=")
		if !takes {
			continue
		}
		if i++; i == len(c.Args) || c.Args[i] == "" {
			return fmt.Errorf("%s needs a value", arg)
		}
		if values != "" && !slices.Contains(strings.Split(values, "|"), c.Args[i]) {
			return fmt.Errorf("%s %s is none of %s", arg, c.Args[i], values)
		}
	}
	return nil
}

// kubernetes checks the few commands of oc and kubectl that the pages use.
func kubernetes(c call) error {
	if len(c.Args) < 2 {
		return errors.New("it does what?")
	}
	switch c.Args[1] {
	case "create":
		return secretOf(c)
	case "apply":
		if !slices.Equal(c.Args[2:], []string{"-f", "-"}) {
			return fmt.Errorf("apply %q", c.Args[2:])
		}
		if c.Stdin == "output-of-"+c.Args[0]+"\n" {
			return nil // what it made itself, looked at there
		}
		return manifests(c.Stdin)
	case "patch":
		if at := slices.Index(c.Args, "-p"); at < 0 || at+1 == len(c.Args) || !json.Valid([]byte(c.Args[at+1])) {
			return fmt.Errorf("%q holds no patch", c.Args)
		}
		return options(c, 3, "-p=", "--type=merge", "-n=")
	case "delete", "get":
		return options(c, 3, "-n=")
	default:
		return fmt.Errorf("%s is not looked at", c.Args[1])
	}
}

// What a manifest is decoded into, strictly. The fields are those of Kubernetes' core/v1 and of
// pkg/apis/servicecatalog/v1beta1 in kubernetes-retired/service-catalog.
type (
	named struct {
		Name, Namespace string
	}
	clusterServiceBroker struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Metadata   named
		Spec       struct {
			URL      string
			AuthInfo struct {
				Basic struct {
					SecretRef named `yaml:"secretRef"`
				}
			} `yaml:"authInfo"`
		}
	}
)

// pagePassword is the one that a reader has in PASSWORD: all that a shell or YAML may
// read as something else.
const pagePassword = `a"b'c\d$e #f: {g}`

// brokersSecret is the name of the secret that the pages make, and refer to.
var brokersSecret = named{Name: "ferry", Namespace: "default"}

// secretOf checks `oc create secret generic`: the password arrives letter for letter.
func secretOf(c call) error {
	want := []string{
		"secret", "generic", brokersSecret.Name, "-n", brokersSecret.Namespace,
		"--from-literal=username=openshift-a", "--from-literal=password=" + pagePassword, "--dry-run=client", "-o", "yaml",
	}
	if !slices.Equal(c.Args[2:], want) {
		return fmt.Errorf("create %q, want %q", c.Args[2:], want)
	}
	return nil
}

// manifests reads the document that is applied: the broker, which refers to the secret.
func manifests(text string) error {
	var b clusterServiceBroker
	if kind := regexp.MustCompile(`(?m)^kind: (\w+)$`).FindStringSubmatch(text); kind == nil || kind[1] != "ClusterServiceBroker" {
		return fmt.Errorf("kind %q is not looked at", kind)
	}
	decoder := yaml.NewDecoder(bytes.NewReader([]byte(text)))
	decoder.KnownFields(true)
	if err := decoder.Decode(&b); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	switch {
	case b.APIVersion != "servicecatalog.k8s.io/v1beta1":
		return fmt.Errorf("version %q", b.APIVersion)
	case b.Spec.AuthInfo.Basic.SecretRef != brokersSecret:
		return fmt.Errorf("the broker refers to the secret %v", b.Spec.AuthInfo.Basic.SecretRef)
	case b.Metadata.Name == "" || b.Metadata.Namespace != "" || b.Spec.URL == "":
		return errors.New("something is missing, or a cluster's broker is in a namespace")
	}
	return nil
}

// hasTarget looks up the targets that make is asked for.
func hasTarget(args []string) error {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		return err
	}
	for _, arg := range args {
		if !strings.Contains(arg, "=") && !regexp.MustCompile(`(?m)^`+regexp.QuoteMeta(arg)+`:`).Match(makefile) {
			return fmt.Errorf("no target %s", arg)
		}
	}
	return nil
}
