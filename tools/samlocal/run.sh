#!/bin/sh
# Runs the API function in a Lambda container on this machine, with the whole broker and
# a simulated Cloud Foundry inside (functions/api built with the tag `local`).
#   run.sh                       serves HTTP on 127.0.0.1 (FERRY_SAM_PORT, 3000) until Ctrl-C
#   run.sh events/catalog.json   sends this one event to a container of its own
#   run.sh --check [EVENT]       only says what this machine lacks, which may be SAM
# Nothing is pulled, deployed or asked of AWS, whatever credentials this user has.
set -eu
cd "$(dirname "$0")/../.."

out=.cache/sam-local # never .aws-sam, or the next `sam deploy` would take the local build along
sam=.cache/venv/bin/sam
port=${FERRY_SAM_PORT:-3000}
check=
if [ "${1-}" = --check ]; then
	check=yes
	shift
fi
event=${1-}

fail() {
	echo "sam-local: $1" >&2
	exit 1
}

# A profile's credentials would go into the container, and SAM would ask AWS about them.
unset AWS_PROFILE AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN AWS_CA_BUNDLE AWS_ENDPOINT_URL
export AWS_CONFIG_FILE=/dev/null AWS_SHARED_CREDENTIALS_FILE=/dev/null AWS_EC2_METADATA_DISABLED=true SAM_CLI_TELEMETRY=0

[ -z "$event" ] || [ -f "$event" ] || fail "there is no file $event: name one of events/."
command -v docker >/dev/null 2>&1 ||
	fail "docker is missing: install it (Debian and Ubuntu: 'apt-get install docker.io'; elsewhere Docker Desktop)."
goarch=$(docker version --format '{{.Server.Arch}}' 2>/dev/null) && [ -n "$goarch" ] ||
	fail "no docker engine answers at ${DOCKER_HOST:-its usual address}: start it ('systemctl start docker', or Docker Desktop), or set DOCKER_HOST to the one to use."
case $goarch in
amd64) architecture=x86_64 ;;
arm64) architecture=arm64 ;;
*) fail "the docker engine runs on $goarch, which Lambda does not know: use one on amd64 or arm64." ;;
esac

image=ferry-lambda-base:local # as samconfig.toml names it
docker image inspect "$image" >/dev/null 2>&1 || tools/samlocal/base-image.sh "$image" "$architecture" || exit 1
[ -z "$check" ] || exit 0
[ -x "$sam" ] || fail "SAM is missing: run 'make stand-in', which installs it into .cache/venv."

mkdir -p "$out"
GOARCH=$goarch FERRY_BUILD_TAGS=local "$sam" build ApiFunction --config-env local --build-dir "$out/build" \
	--parameter-overrides "Architecture=$architecture" >"$out/build.log" 2>&1 ||
	{ cat "$out/build.log" >&2; fail "the function was not built; the reason stands above."; }

# The rest stands in samconfig.toml.
sam_local() {
	verb=$1
	shift
	exec "$sam" local "$verb" "$@" --config-env local --parameter-overrides "Architecture=$architecture" --layer-cache-basedir "$out/layers"
}

[ -z "$event" ] || sam_local invoke ApiFunction --event "$event"

cat <<END
Ferry's API function is about to answer at http://127.0.0.1:$port (another port: FERRY_SAM_PORT=3001 make sam-local).
It knows what you provision until you press Ctrl-C. User and password are demo; plans stand in its log at the first call. Try:
  curl -u demo:demo -H 'X-Broker-API-Version: 2.17' http://127.0.0.1:$port/v2/catalog
END
# LAZY: EAGER would start the other functions too, which need a cloud. Either way there is
# one container for the function, and it takes one call after the other.
sam_local start-api --host 127.0.0.1 --port "$port" --warm-containers LAZY --no-watch
