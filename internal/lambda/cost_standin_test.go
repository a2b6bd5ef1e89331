package lambda

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/ferry-broker/ferry/internal/standin"
)

// root is the way from here to the project's top.
var root = filepath.Join("..", "..")

// cloud plays DynamoDB and Secrets Manager for the tests that count.
var cloud = standin.Shared{Root: root}

func TestMain(m *testing.M) { os.Exit(cloud.Main(m)) }
