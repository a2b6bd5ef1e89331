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
	case "apply":
		if !slices.Equal(c.Args[2:], []string{"-f", "-"}) {
			return fmt.Errorf("apply %q", c.Args[2:])
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
	secret struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Metadata   named
		StringData struct{ Username, Password string } `yaml:"stringData"`
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

// manifests reads the documents that are applied: a secret, and the broker that
// refers to it.
func manifests(text string) error {
	var s secret
	var b clusterServiceBroker
	for document := range strings.SplitSeq(text, "\n---\n") {
		kind := regexp.MustCompile(`(?m)^kind: (\w+)$`).FindStringSubmatch(document)
		into := any(&b)
		switch {
		case kind != nil && kind[1] == "Secret":
			into = &s
		case kind == nil || kind[1] != "ClusterServiceBroker":
			return fmt.Errorf("kind %q is not looked at", kind)
		}
		decoder := yaml.NewDecoder(bytes.NewReader([]byte(document)))
		decoder.KnownFields(true)
		if err := decoder.Decode(into); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
	}
	switch {
	case s.APIVersion != "v1" || b.APIVersion != "servicecatalog.k8s.io/v1beta1":
		return fmt.Errorf("versions %q and %q", s.APIVersion, b.APIVersion)
	case b.Spec.AuthInfo.Basic.SecretRef != s.Metadata || s.Metadata.Name == "" || s.Metadata.Namespace == "":
		return fmt.Errorf("the broker refers to the secret %v, which is %v", b.Spec.AuthInfo.Basic.SecretRef, s.Metadata)
	case b.Metadata.Name == "" || b.Metadata.Namespace != "" || b.Spec.URL == "" || s.StringData.Username == "" || s.StringData.Password == "":
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
