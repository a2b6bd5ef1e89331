"""Deploys the stack of template.yaml on this machine, to the stand-in for AWS, in front of
a simulated Cloud Foundry, and takes all of it away at Ctrl-C.

Called by `make aws-local`, which has installed the stand-in and built bin/ferry. Nothing
here knows an account: whatever credentials this user has are left out.
"""

import json
import os
import pathlib
import platform
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import boto3

ROOT = pathlib.Path(__file__).resolve().parents[2]
STACK = "ferry-local"
SECRET = "ferry-local"
REGION = "us-east-1"
MACHINES = {"x86_64": ("amd64", "x86_64"), "amd64": ("amd64", "x86_64"), "aarch64": ("arm64", "arm64"), "arm64": ("arm64", "arm64")}
CONFIGURATION = """clients:
  - name: demo
    credentials: [{{username: demo, password: {password}}}]
    cloud_foundry: {{api: "{foundry}", org: demo, client_id: ferry, client_secret: ferry}}
polling: {{first: 1s, max: 5s}}
operations: {{settle_after: 5s, request_budget: 20s}}
"""
# Ends a program when whoever started it has ended, however.
LEAVE_WITH_STARTER = '"$@" & program=$!; cat >/dev/null; kill $program; wait $program'


class Fault(Exception):
    """What went wrong, and what to do about it."""


def say(text):
    print(text, flush=True)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Workshop:
    """A folder and the processes that were started; both are gone when it is closed."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ferry-aws-local-"))
        self.processes = []
        for name in ("home", "tmp", "data"):
            (self.folder / name).mkdir()

    def environment(self, **more):
        """This user's, without what belongs to an account; Go keeps its caches."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "FERRY_", "SAM_"))}
        go = subprocess.run(["go", "env", "-json", "GOENV", "GOCACHE", "GOMODCACHE", "GOPATH"], check=True, capture_output=True)
        kept.update(json.loads(go.stdout))
        kept.update(HOME=str(self.folder / "home"), TMPDIR=str(self.folder / "tmp"), SAM_CLI_TELEMETRY="0",
                    AWS_EC2_METADATA_DISABLED="true", AWS_DEFAULT_REGION=REGION, AWS_REGION=REGION,
                    AWS_ACCESS_KEY_ID="test", AWS_SECRET_ACCESS_KEY="test")
        kept.update(more)
        return kept

    def start(self, name, command, environment):
        """Starts what runs beside this program, in a session of its own."""
        with open(self.folder / f"{name}.log", "wb") as log:
            process = subprocess.Popen(command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=log, stderr=log,
                                       start_new_session=True)
        self.processes.append(process)
        return process

    def said(self, name):
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def run(self, name, command, environment):
        """Runs a program to its end; what it says is shown when it fails."""
        process = self.start(name, command, environment)
        process.stdin.close()
        if process.wait():
            raise Fault(f"{self.said(name)}\n{' '.join(command[:2])} failed; what it said stands above.")

    def answers(self, name, process, url):
        """Waits until a server answers."""
        late = time.monotonic() + 60
        while time.monotonic() < late:
            if process.poll() is not None:
                break
            try:
                with urllib.request.urlopen(url, timeout=5):
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(0.1)
        raise Fault(f"{self.said(name)}\nThe {name} does not answer at {url}; what it said stands above.")

    def close(self):
        for process in reversed(self.processes):
            if not process.stdin.closed:
                process.stdin.close()
        for process in reversed(self.processes):
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                pass
            try:
                os.killpg(process.pid, signal.SIGKILL)  # what it started
            except ProcessLookupError:
                pass
            process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def check_machine():
    if platform.system() != "Linux":
        raise Fault("the stand-in runs Lambda's Linux binaries as they are, so that this needs Linux; elsewhere use a virtual machine or a container.")
    machine = MACHINES.get(platform.machine().lower())
    if machine is None:
        raise Fault(f"Lambda knows no {platform.machine()}: use a machine with x86_64 or arm64.")
    return machine


def start_stand_in(shop):
    port = free_port()
    data = str(shop.folder / "data")
    process = shop.start("stand-in", [sys.executable, "tools/standin/serve.py"], {
        "PATH": os.environ["PATH"], "HOME": data, "TMPDIR": data, "S3_DATA_DIR": data, "STATE_DIR": data,
        "BIND_HOST": "127.0.0.1", "MINISTACK_HOST": "127.0.0.1", "GATEWAY_PORT": str(port), "SFTP_ENABLED": "0",
        "IOT_MTLS_ENABLED": "0", "LOG_LEVEL": "WARNING", "DOCKER_HOST": f"unix://{data}/none", "AUTH": "true",
        "LAMBDA_ACCOUNT_CONCURRENCY": "1000",
    })
    shop.answers("stand-in", process, f"http://127.0.0.1:{port}/_ministack/health")
    return f"http://127.0.0.1:{port}"


def start_foundry(shop):
    url = f"http://127.0.0.1:{free_port()}"
    process = shop.start("simulator", ["sh", "-c", LEAVE_WITH_STARTER, "sh", "bin/ferry", "sim", "--listen", url.removeprefix("http://")],
                         shop.environment())
    shop.answers("simulator", process, url + "/v3/info")
    return url


def client(service, endpoint):
    return boto3.client(service, endpoint_url=endpoint, region_name=REGION, aws_access_key_id="test", aws_secret_access_key="test")


def deploy(shop, endpoint, goarch, architecture):
    """Does what README.md says for AWS: sam build, sam deploy. Returns the URL of the broker."""
    environment = shop.environment(GOARCH=goarch, AWS_ENDPOINT_URL=endpoint)
    sam = str(pathlib.Path(sys.executable).parent / "sam")
    common = ["--config-env", "local", "--config-file", str(ROOT / "samconfig.toml")]
    say("Building the functions …")
    shop.run("sam-build", [sam, "build", *common, "--build-dir", str(shop.folder / "build"),
                           "--parameter-overrides", f"Architecture={architecture}"], environment)
    say("Deploying the stack …")
    shop.run("sam-deploy", [sam, "deploy", *common, "--template-file", str(shop.folder / "build" / "template.yaml"),
                            "--stack-name", STACK, "--parameter-overrides",
                            f"Architecture={architecture} Stage=local LocalEndpoint={endpoint} ConfigSecretName={SECRET}"], environment)
    outputs = client("cloudformation", endpoint).describe_stacks(StackName=STACK)["Stacks"][0]["Outputs"]
    return next(output["OutputValue"] for output in outputs if output["OutputKey"] == "BrokerUrl")


def serve(shop):
    goarch, architecture = check_machine()
    endpoint, foundry, password = start_stand_in(shop), start_foundry(shop), secrets.token_hex(12)
    client("secretsmanager", endpoint).create_secret(
        Name=SECRET, SecretString=CONFIGURATION.format(password=password, foundry=foundry))
    url = deploy(shop, endpoint, goarch, architecture)
    say(f"""
The stack runs on this machine until you press Ctrl-C.
  URL       {url}
  user      demo
  password  {password}
Try:
  curl -u demo:{password} -H 'X-Broker-API-Version: 2.17' {url}/v2/catalog
What Cloud Foundry has: {foundry}/__sim/state
What AWS has: AWS_ENDPOINT_URL={endpoint}, region {REGION}, key and secret `test`; the stack is called {STACK}.""")
    beside = shop.processes[:2]
    while all(process.poll() is None for process in beside):
        time.sleep(1)
    raise Fault("the stand-in or the simulator has ended by itself.")


def leave(number, _):
    raise SystemExit(0 if number == signal.SIGINT else 128 + number)


def main():
    signals = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
    for number in signals:
        signal.signal(number, leave)
    shop = None
    try:
        shop = Workshop()
        serve(shop)
    except (Fault, OSError, subprocess.SubprocessError) as fault:
        print(f"aws-local: {fault}", file=sys.stderr)
        return 1
    finally:
        for number in signals:
            signal.signal(number, signal.SIG_IGN)
        if shop is not None:
            shop.close()


if __name__ == "__main__":
    sys.exit(main())
