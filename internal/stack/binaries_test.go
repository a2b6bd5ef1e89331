package stack

import (
	"archive/zip"
	"bytes"
	"cmp"
	"debug/buildinfo"
	"debug/elf"
	"encoding/json"
	"flag"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

// What `make sizes` asks for; without, the tests look at the same things once.
var (
	runs = flag.Int("runs", 1, "how often the API function is started under the runtime interface emulator")
	cold = flag.Bool("cold", false, "drop the page cache before each start; needs root")
)

// maxZip bounds what is uploaded, and fetched at a cold start.
const maxZip = 5 << 20

// figuresPage has the figures, and the reason for each module.
const figuresPage = "docs/aws-figures.md"

// linked is a package as `go list` tells it.
type linked struct {
	ImportPath string
	Imports    []string
	Standard   bool
	Module     *struct {
		Path string
		Main bool
	}
}

// owner is the module that a package counts for.
func (p linked) owner() string {
	switch {
	case p.Standard:
		return "the standard library"
	case p.Module.Main:
		return "Ferry"
	default:
		return p.Module.Path
	}
}

// TestSizes weighs the API function by module and holds the page against it.
func TestSizes(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds two binaries")
	}
	binary := buildAPI(t, "amd64")
	size := sizeOf(t, binary)
	packed := zipped(t, binary)
	t.Logf("api, x86-64: %.1f MB, zip %.1f MB", mega(size), mega(packed))
	if size > maxBinary || packed > maxZip {
		t.Errorf("%d bytes, zip %d: over %d and %d", size, packed, maxBinary, maxZip)
	}
	packages := linkedPackages(t)
	own := weigh(symbols(t), packages, size)
	added := addedBy(packages)
	t.Logf("%-55s %8s %8s  %s", "module", "KB", "share", "packages of the standard library that only it needs")
	for _, module := range slices.SortedFunc(maps.Keys(own), func(a, b string) int { return cmp.Compare(own[b], own[a]) }) {
		t.Logf("%-55s %8d %7.1f%%  %s", module, own[module]/1000, 100*float64(own[module])/float64(size), strings.Join(added[module], " "))
	}
	checkFigures(t, size, packed, own)
}

// checkFigures: the page tells of each module, of no other, and its sizes are right to
// a tenth.
func checkFigures(t *testing.T, size, packed int64, own map[string]int64) {
	t.Helper()
	page := string(readRoot(t, figuresPage))
	told := map[string]bool{}
	for _, match := range regexp.MustCompile("(?m)^\\| `([a-z.]+/[^`]+)` \\|").FindAllStringSubmatch(page, -1) {
		told[match[1]] = true
	}
	there := map[string]bool{}
	for module := range own {
		if strings.Contains(module, "/") {
			there[module] = true
		}
	}
	if diff := gocmp.Diff(there, told); diff != "" {
		t.Errorf("the modules of the binary and of %s differ (-binary +page):\n%s", figuresPage, diff)
	}
	for name, measured := range map[string]int64{"size": size, "zip": packed} {
		match := regexp.MustCompile(`(?m)^\| ` + name + ` \| ([0-9.]+) MB`).FindStringSubmatch(page)
		if match == nil {
			t.Errorf("%s says nothing of the %s", figuresPage, name)
			continue
		}
		written, err := strconv.ParseFloat(match[1], 64)
		if off := written - mega(measured); err != nil || off > mega(measured)/10 || off < -mega(measured)/10 {
			t.Errorf("%s says %s MB for the %s, and it is %.1f", figuresPage, match[1], name, mega(measured))
		}
	}
}

func mega(bytes int64) float64 { return float64(bytes) / 1e6 }

// buildAPI builds as `sam build` does.
func buildAPI(t *testing.T, arch string) string {
	t.Helper()
	dir := t.TempDir()
	command := exec.CommandContext(t.Context(), "make", "--no-print-directory", "build-ApiFunction", "ARTIFACTS_DIR="+dir)
	command.Dir = root
	command.Env = append(without(os.Environ(), "GOARCH", "MAKEFLAGS", "MFLAGS"), "GOARCH="+arch)
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return filepath.Join(dir, "bootstrap")
}

func sizeOf(t *testing.T, file string) int64 {
	t.Helper()
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
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
	if _, err := io.Copy(into, in); err != nil {
		t.Fatal(err)
	}
	if err := archive.Close(); err != nil {
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

func linkedPackages(t *testing.T) map[string]linked {
	t.Helper()
	packages := map[string]linked{}
	decoder := json.NewDecoder(bytes.NewReader(inAPI(t, "list", "-deps", "-tags", "lambda.norpc", "-json=ImportPath,Imports,Standard,Module", "./functions/api")))
	for {
		var p linked
		if err := decoder.Decode(&p); err == io.EOF {
			return packages
		} else if err != nil {
			t.Fatal(err)
		}
		packages[p.ImportPath] = p
	}
}

// symbols lists what takes room in a twin of the binary that still has its names.
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
func weigh(symbols []elf.Symbol, packages map[string]linked, size int64) map[string]int64 {
	own := map[string]int64{sharedTables: size}
	for _, s := range symbols {
		if p, ok := packages[packageOf(s.Name)]; ok {
			own[p.owner()] += int64(s.Size)
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

// addedBy tells for each module what of the standard library would not be linked
// without it.
func addedBy(packages map[string]linked) map[string][]string {
	added := map[string][]string{}
	modules := map[string]bool{}
	for _, p := range packages {
		if !p.Standard && !p.Module.Main {
			modules[p.owner()] = true
		}
	}
	for module := range modules {
		rest := reached(packages, module)
		for path, p := range packages {
			if p.Standard && !rest[path] && !strings.Contains(path, "internal/") && !strings.HasPrefix(path, "vendor/") {
				added[module] = append(added[module], path)
			}
		}
		slices.Sort(added[module])
	}
	return added
}

// reached are the packages that main needs when a module's are left out.
func reached(packages map[string]linked, without string) map[string]bool {
	seen := map[string]bool{}
	var visit func(path string)
	visit = func(path string) {
		p, ok := packages[path]
		if !ok || seen[path] || p.owner() == without {
			return
		}
		seen[path] = true
		for _, next := range p.Imports {
			visit(next)
		}
	}
	for path, p := range packages {
		if !p.Standard && p.Module.Main && strings.HasSuffix(path, "functions/api") {
			visit(path)
		}
	}
	visit("runtime")
	return seen
}

func TestPackageOf(t *testing.T) {
	t.Parallel()
	for symbol, want := range map[string]string{
		"net/http.(*Client).Do":                           "net/http",
		"runtime.mallocgc":                                "runtime",
		"github.com/aws/aws-sdk-go-v2/aws.init.0":         "github.com/aws/aws-sdk-go-v2/aws",
		"go.yaml.in/yaml/v4.Unmarshal":                    "go.yaml.in/yaml/v4",
		"gopkg.in/yaml%2ev3.Unmarshal":                    "gopkg.in/yaml.v3",
		"type:.eq.net/http.http2frame":                    "net/http",
		"type:*[]example.org/a/b.T":                       "example.org/a/b",
		"go:itab.*os.File,io.Reader":                      "os",
		"slices.SortFunc[go.shape.[]example.org/a.T,int]": "slices",
		"example.org/a.Map[example.org/b.K].Get":          "example.org/a",
		"runtime.pclntab":                                 "runtime",
		"_rt0_amd64_linux":                                "",
	} {
		if got := packageOf(symbol); got != want {
			t.Errorf("%s is of %q, want %q", symbol, got, want)
		}
	}
}

func TestWeigh(t *testing.T) {
	t.Parallel()
	module := func(path string, main bool) *struct {
		Path string
		Main bool
	} {
		return &struct {
			Path string
			Main bool
		}{path, main}
	}
	packages := map[string]linked{
		"os": {ImportPath: "os", Standard: true}, "runtime": {ImportPath: "runtime", Standard: true},
		"a/functions/api": {ImportPath: "a/functions/api", Module: module("a", true), Imports: []string{"b/x"}},
		"b/x":             {ImportPath: "b/x", Module: module("b", false), Imports: []string{"os", "runtime"}},
	}
	symbols := []elf.Symbol{
		{Name: "b/x.F", Size: 30}, {Name: "go:itab.*b/x.T,io.Reader", Size: 12}, {Name: "os.Open", Size: 7}, {Name: "tail", Size: 5},
	}
	want := map[string]int64{"b": 42, "the standard library": 7, sharedTables: 51}
	if diff := gocmp.Diff(want, weigh(symbols, packages, 100)); diff != "" {
		t.Errorf("weights (-want +got):\n%s", diff)
	}
	if diff := gocmp.Diff(map[string][]string{"b": {"os"}}, addedBy(packages)); diff != "" {
		t.Errorf("added (-want +got):\n%s", diff)
	}
}

// maxBinary bounds what a function may weigh: each MiB is time at a cold start.
const maxBinary = 14 << 20

// TestTheBinariesAreWhatTheTemplateSays builds them as `sam build` does: it tells make
// where to put them and nothing else, so that only the Makefile's default makes them
// of the template's default architecture.
func TestTheBinariesAreWhatTheTemplateSays(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds three binaries")
	}
	machines := map[string]elf.Machine{"arm64": elf.EM_AARCH64, "x86_64": elf.EM_X86_64}
	want := machines[template(t).at("Parameters.Architecture.Default").String()]
	for name := range ofType(t, "AWS::Serverless::Function") {
		dir := t.TempDir()
		command := exec.CommandContext(t.Context(), "make", "--no-print-directory", "build-"+name, "ARTIFACTS_DIR="+dir)
		command.Dir = root
		command.Env = without(os.Environ(), "GOARCH", "FERRY_BUILD_TAGS", "MAKEFLAGS", "MFLAGS")
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
		inspect(t, filepath.Join(dir, "bootstrap"), want)
	}
}

func inspect(t *testing.T, binary string, want elf.Machine) {
	t.Helper()
	file, err := elf.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	if file.Machine != want {
		t.Errorf("%s is for %v, want %v", binary, file.Machine, want)
	}
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP {
			t.Errorf("%s is linked dynamically", binary)
		}
	}
	info, err := os.Stat(binary)
	if err != nil || info.Size() > maxBinary {
		t.Errorf("%s has %d bytes, over %d (%v)", binary, info.Size(), maxBinary, err)
	}
	if found := holds(t, binary); found != nil {
		t.Errorf("%s holds %q, which only sam-local needs", binary, found)
	}
	if described := gitDescribes(t); described != "" {
		if text, err := os.ReadFile(binary); err != nil || !bytes.Contains(text, []byte(described)) {
			t.Errorf("%s does not tell that it was made of %s (%v)", binary, described, err)
		}
	}
	built, err := buildinfo.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	for _, dependency := range built.Deps {
		for _, unwanted := range []string{"go.etcd.io/bbolt", "github.com/prometheus/client_golang", "github.com/spf13/cobra", "github.com/aws/aws-sdk-go-v2/config"} {
			if dependency.Path == unwanted {
				t.Errorf("%s holds %s, which no function needs", binary, unwanted)
			}
		}
	}
}

// gitDescribes is what a build of this tree is called; empty without git.
func gitDescribes(t *testing.T) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "git", "describe", "--tags", "--always", "--dirty")
	command.Dir = root
	out, err := command.Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

func without(environment []string, names ...string) []string {
	var rest []string
	for _, entry := range environment {
		keep := true
		for _, name := range names {
			keep = keep && !strings.HasPrefix(entry, name+"=")
		}
		if keep {
			rest = append(rest, entry)
		}
	}
	return rest
}
