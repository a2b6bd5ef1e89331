package bolt

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// The test binary runs itself again as the other process of a test.
const (
	roleVariable = "FERRY_BOLT_ROLE"
	dirVariable  = "FERRY_BOLT_DIR"
)

func TestMain(m *testing.M) {
	roles := map[string]func(dir string) error{
		"writer": writeForEver, "holder": hold, "opener": openOnce, "load": loadAndWeigh, "restart": openAndWeigh,
	}
	flag.Bool("write-fixtures", false, "write the fixtures that are missing")
	role, ok := roles[os.Getenv(roleVariable)]
	if !ok {
		os.Exit(m.Run())
	}
	if err := role(os.Getenv(dirVariable)); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// process is another process of the test. Closing stdin tells a holder to end.
type process struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines *bufio.Scanner
}

func startRole(t *testing.T, role, dir string) *process {
	t.Helper()
	p := &process{cmd: exec.CommandContext(t.Context(), os.Args[0])}
	p.cmd.Env = append(os.Environ(), roleVariable+"="+role, dirVariable+"="+dir)
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.stdin, p.lines = stdin, bufio.NewScanner(stdout)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

// rest reads what the process still says and waits for its end.
func (p *process) rest() (lines []string, err error) {
	for p.lines.Scan() {
		lines = append(lines, p.lines.Text())
	}
	return lines, errors.Join(p.lines.Err(), p.cmd.Wait())
}

func openHere(dir string) (*Store, error) {
	return Open(context.Background(), Options{Dir: dir, Now: time.Now})
}

// hold keeps the store open until stdin ends.
func hold(dir string) error {
	s, err := openHere(dir)
	if err != nil {
		return err
	}
	fmt.Println("open")
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	return s.Close()
}

// openOnce says whether the store is in use and how long it took to find out.
func openOnce(dir string) error {
	began := time.Now()
	_, err := openHere(dir)
	fmt.Println(errors.Is(err, ErrInUse), time.Since(began))
	fmt.Println(err)
	return nil
}

// bindingOf is the key of the n-th record of these tests.
func bindingOf(n int) broker.Key {
	return broker.Key{Client: "client", InstanceID: "instance", BindingID: fmt.Sprintf("b%d", n)}
}

// plain is a record that runs an operation and holds the given parameters.
func plain(key broker.Key, token, parameters string) broker.Record {
	return broker.Record{
		Key: key, Token: token, Parameters: json.RawMessage(parameters),
		Lifecycle: lifecycle.Record{
			Kind: key.Kind(), State: lifecycle.Creating,
			Operation: lifecycle.Operation{ID: "create-" + token, Due: time.Unix(1e9, 0)},
		},
	}
}
