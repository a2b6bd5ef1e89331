package stack

import (
	"archive/zip"
	"bytes"
	"cmp"
	"debug/buildinfo"
	"debug/elf"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

// What `make sizes` asks for; without, the tests look at the same things once.
var (
	runs = flag.Int("runs", 1, "how often the API function is started under the runtime interface emulator; above 1, modules are weighed")
	cold = flag.Bool("cold", false, "drop the page cache before each start; needs root")
)

const (
	// maxBinary bounds what a function may weigh: each MiB is time at a cold start.
	maxBinary = 14 << 20
	// maxZip bounds what is uploaded, and fetched at a cold start.
	maxZip = 5 << 20
	// figuresPage has the figures, and the reason for each module.
	figuresPage = "docs/aws-figures.md"
)

// onlyLocal are the packages that `sam local` needs and AWS does not.
var onlyLocal = []string{"internal/bolt", "internal/cfsim", "internal/loop", "internal/metrics", "internal/lambda/local"}

// holds returns which of them have functions in a binary. Their names stay, for stack traces, when symbols are
// stripped.
func holds(text []byte) []string {
	return slices.DeleteFunc(slices.Clone(onlyLocal), func(name string) bool {
		return !bytes.Contains(text, []byte("github.com/ferry-broker/ferry/"+name+"."))
	})
}

// builds are the binaries that tests share, in a folder that TestMain removes.
var builds struct {
	sync.Mutex
	dir  string
	made map[string]func() error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if err := os.RemoveAll(builds.dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// built builds a function as `sam build` does, once for all tests that want it so: it tells make where to put it, and
// nothing else but what is given.
func built(t *testing.T, function string, environment ...string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("builds a binary")
	}
	name := strings.Join(append(environment, function), ",")
	builds.Lock()
	if builds.made == nil {
		dir, err := os.MkdirTemp("", "ferry-stack-")
		if err != nil {
			t.Fatal(err)
		}
		builds.dir, builds.made = dir, map[string]func() error{}
	}
	dir := filepath.Join(builds.dir, name)
	if builds.made[name] == nil {
		builds.made[name] = sync.OnceValue(func() error {
			command := exec.Command("make", "--no-print-directory", "build-"+function, "ARTIFACTS_DIR="+dir)
			command.Dir = root
			command.Env = append(without(os.Environ(), "GOARCH", "FERRY_BUILD_TAGS", "MAKEFLAGS", "MFLAGS"), environment...)
			if out, err := command.CombinedOutput(); err != nil {
				return fmt.Errorf("%s: %w\n%s", name, err, out)
			}
			return nil
		})
	}
	build := builds.made[name]
	builds.Unlock()
	if err := build(); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "bootstrap")
}

func without(environment []string, names ...string) []string {
	return slices.DeleteFunc(environment, func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.Contains(names, name)
	})
}

// TestTheBinariesAreWhatTheTemplateSays: only the Makefile's default makes them of the template's default architecture.
func TestTheBinariesAreWhatTheTemplateSays(t *testing.T) {
	t.Parallel()
	machines := map[string]elf.Machine{"arm64": elf.EM_AARCH64, "x86_64": elf.EM_X86_64}
	want := machines[template(t).at("Parameters.Architecture.Default").String()]
	describe := exec.CommandContext(t.Context(), "git", "describe", "--tags", "--always", "--dirty")
	describe.Dir = root
	version, _ := describe.Output() // none without git
	for name := range ofType(t, "AWS::Serverless::Function") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			binary := built(t, name)
			file, err := elf.Open(binary)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = file.Close() }()
			if file.Machine != want || slices.ContainsFunc(file.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
				t.Errorf("it is for %v, want %v, linked statically", file.Machine, want)
			}
			text, err := os.ReadFile(binary)
			if err != nil || len(text) > maxBinary || !bytes.Contains(text, bytes.TrimSpace(version)) {
				t.Errorf("%d bytes, at most %d; it has to tell that it is made of %s (%v)", len(text), maxBinary, version, err)
			}
			if found := holds(text); len(found) > 0 {
				t.Errorf("it holds %q, which only sam-local needs", found)
			}
			for _, module := range modules(t, binary) {
				switch module {
				case "go.etcd.io/bbolt", "github.com/prometheus/client_golang", "github.com/spf13/cobra", "github.com/aws/aws-sdk-go-v2/config":
					t.Errorf("it holds %s, which no function needs", module)
				}
			}
		})
	}
}

// modules are those that a binary is made of, but for ours.
func modules(t *testing.T, binary string) []string {
	t.Helper()
	built, err := buildinfo.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, dependency := range built.Deps {
		all = append(all, dependency.Path)
	}
	slices.Sort(all)
	return all
}

// TestSizes holds the page of figures against the API function: it tells of each module and of no other, and its sizes
// are right to a tenth.
func TestSizes(t *testing.T) {
	t.Parallel()
	binary := built(t, "ApiFunction", "GOARCH=amd64")
	info, err := os.Stat(binary)
	if err != nil {
		t.Fatal(err)
	}
	page, packed := string(readRoot(t, figuresPage)), zipped(t, binary)
	t.Logf("api, x86-64: %.1f MB, zip %.1f MB", float64(info.Size())/1e6, float64(packed)/1e6)
	if info.Size() > maxBinary || packed > maxZip {
		t.Errorf("%d bytes, zip %d: over %d and %d", info.Size(), packed, maxBinary, maxZip)
	}
	var told []string
	for _, match := range regexp.MustCompile("(?m)^\\| `([a-z.]+/[^`]+)` \\|").FindAllStringSubmatch(page, -1) {
		told = append(told, match[1])
	}
	slices.Sort(told)
	if diff := gocmp.Diff(modules(t, binary), told); diff != "" {
		t.Errorf("the modules of the binary and of %s differ (-binary +page):\n%s", figuresPage, diff)
	}
	for name, measured := range map[string]int64{"size": info.Size(), "zip": packed} {
		match := regexp.MustCompile(`(?m)^\| ` + name + ` \| ([0-9.]+) MB`).FindStringSubmatch(page)
		if match == nil {
			t.Errorf("%s says nothing of the %s", figuresPage, name)
			continue
		}
		written, err := strconv.ParseFloat(match[1], 64)
		if share := written * 1e6 / float64(measured); err != nil || share < 0.9 || share > 1.1 {
			t.Errorf("%s says %s MB for the %s, and it is %d bytes", figuresPage, match[1], name, measured)
		}
	}
	if *runs > 1 {
		own := weigh(symbols(t), owners(t), info.Size())
		for _, module := range slices.SortedFunc(maps.Keys(own), func(a, b string) int { return cmp.Compare(own[b], own[a]) }) {
			t.Logf("%-60s %6d KB %5.1f%%", module, own[module]/1000, 100*float64(own[module])/float64(info.Size()))
		}
	}
}

// zipped is the size of the archive that SAM uploads: the binary alone, deflated.
func zipped(t *testing.T, file string) int64 {
	t.Helper()
	var out bytes.Buffer
	archive := zip.NewWriter(&out)
	into, err := archive.Create("bootstrap")
	if err != nil {
		t.Fatal(err)
	}
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	_, err = io.Copy(into, in)
	if err := errors.Join(err, archive.Close()); err != nil {
		t.Fatal(err)
	}
	return int64(out.Len())
}

// inAPI runs go for what the deployed binary is built for.
func inAPI(t *testing.T, args ...string) []byte {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", args...)
	command.Dir = root
	command.Env = append(without(os.Environ(), "GOARCH", "GOOS", "CGO_ENABLED"), "GOARCH=amd64", "GOOS=linux", "CGO_ENABLED=0")
	out, err := command.Output()
	if err != nil {
		t.Fatalf("go %q: %v\n%s", args, err, errorOutput(err))
	}
	return out
}

// owners are the modules that the packages of the API function count for.
func owners(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	decoder := json.NewDecoder(bytes.NewReader(inAPI(t, "list", "-deps", "-tags", "lambda.norpc", "-json=ImportPath,Standard,Module", "./functions/api")))
	for {
		var p struct {
			ImportPath string
			Standard   bool
			Module     *struct{ Path string }
		}
		err := decoder.Decode(&p)
		switch {
		case err == io.EOF:
			return all
		case err != nil:
			t.Fatal(err)
		case p.Standard:
			all[p.ImportPath] = "the standard library"
		default:
			all[p.ImportPath] = p.Module.Path
		}
	}
}

// symbols lists what has a place in a twin of the binary that still has its names.
func symbols(t *testing.T) []elf.Symbol {
	t.Helper()
	twin := filepath.Join(t.TempDir(), "twin")
	inAPI(t, "build", "-trimpath", "-tags", "lambda.norpc", "-o", twin, "./functions/api")
	file, err := elf.Open(twin)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	all, err := file.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(s elf.Symbol) bool {
		return s.Section == elf.SHN_UNDEF || int(s.Section) >= len(file.Sections) || file.Sections[s.Section].Type == elf.SHT_NOBITS
	})
}

// sharedTables are what the linker makes for all code together: names, lines, types.
const sharedTables = "tables of the linker"

// weigh adds up symbols by module; what is left of the file's size are tables.
func weigh(symbols []elf.Symbol, owners map[string]string, size int64) map[string]int64 {
	own := map[string]int64{sharedTables: size}
	for _, s := range symbols {
		if owner, ok := owners[packageOf(s.Name)]; ok {
			own[owner] += int64(s.Size)
			own[sharedTables] -= int64(s.Size)
		}
	}
	return own
}

var beforePath = regexp.MustCompile(`^(type:(\.(eq|hash)\.)?|go:itab\.|go:)?[*\[\]]*`)

// packageOf reads the path of the package off a symbol's name.
func packageOf(symbol string) string {
	name := beforePath.ReplaceAllString(symbol, "")
	if i := strings.IndexAny(name, "([{, "); i >= 0 {
		name = name[:i]
	}
	slash := strings.LastIndex(name, "/")
	dot := strings.Index(name[slash+1:], ".")
	if dot < 0 {
		return ""
	}
	return strings.ReplaceAll(name[:slash+1+dot], "%2e", ".")
}

func TestWeigh(t *testing.T) {
	t.Parallel()
	owners := map[string]string{"net/http": "std", "a.org/aws": "a.org", "gopkg.in/yaml.v3": "gopkg.in/yaml.v3", "slices": "std"}
	symbols := []elf.Symbol{
		{Name: "net/http.(*Client).Do", Size: 1}, {Name: "type:.eq.net/http.http2frame", Size: 2}, {Name: "a.org/aws.init.0", Size: 10},
		{Name: "go:itab.*a.org/aws.T,io.Reader", Size: 20}, {Name: "type:*[]a.org/aws.T", Size: 40}, {Name: "a.org/aws.Map[b.org/c.K].Get", Size: 80},
		{Name: "gopkg.in/yaml%2ev3.Unmarshal", Size: 5}, {Name: "slices.SortFunc[go.shape.[]a.org/aws.T,int]", Size: 4}, {Name: "_rt0_amd64_linux", Size: 7},
	}
	want := map[string]int64{"std": 7, "a.org": 150, "gopkg.in/yaml.v3": 5, sharedTables: 838}
	if diff := gocmp.Diff(want, weigh(symbols, owners, 1000)); diff != "" {
		t.Errorf("weights (-want +got):\n%s", diff)
	}
}
