"""Runs every test in a process of its own, as cargo-nextest does: some tests change limits or logs of their process.

Reads what `cargo test --no-run --message-format=json` prints. Prints a line per test, in the format of `cargo test`
with its duration. The arguments are regular expressions for "PACKAGE TEST"; without any, all tests run.
"""

import json
import os
import re
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

PROCESSES = 6
# A test that hangs fails instead of holding up the run.
SECONDS_PER_TEST = 300
# Each browser keeps a core busy.
BROWSERS = threading.Semaphore(2)


def package(identifier):
    """The name in a package id, such as `path+file:///crates/engine#backstitch@0.1.0` or `…/crates/kernel#0.1.0`."""
    place, _, version = identifier.rpartition("#")
    return version.split("@")[0] if "@" in version else os.path.basename(place)


def tests():
    for line in sys.stdin:
        message = json.loads(line) if line.startswith("{") else {}
        if not message.get("executable") or not message["profile"]["test"]:
            continue
        binary = message["executable"]
        directory = os.path.dirname(message["manifest_path"])
        listed = subprocess.run([binary, "--list", "--format", "terse"], cwd=directory, capture_output=True, text=True, check=True)
        for entry in listed.stdout.splitlines():
            name = entry.removesuffix(": test")
            identity = f"{package(message['package_id'])} {name}"
            if name != entry and (len(sys.argv) == 1 or any(re.search(part, identity) for part in sys.argv[1:])):
                yield binary, directory, name


def run(test):
    binary, directory, name = test
    environment = {**os.environ, "CARGO_MANIFEST_DIR": directory}
    with BROWSERS if name.startswith("console_in_browser::") else nullcontext():
        began = time.monotonic()
        try:
            outcome = subprocess.run(
                [binary, "--exact", name, "--nocapture"], cwd=directory, env=environment, text=True, errors="replace",
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS_PER_TEST,
            )
            passed, output = outcome.returncode == 0, outcome.stdout
        except subprocess.TimeoutExpired as expired:
            passed, output = False, f"{expired.stdout}\nno end after {SECONDS_PER_TEST} s"
        seconds = time.monotonic() - began
    print(f"test {name} ... {'ok' if passed else 'FAILED'} <{seconds:.3f}s>", *([] if passed else [output]), sep="\n", flush=True)
    return passed


with ThreadPoolExecutor(PROCESSES) as processes:
    outcomes = list(processes.map(run, list(tests())))
print(f"{len(outcomes)} tests, {outcomes.count(False)} failed")
sys.exit(0 if outcomes and all(outcomes) else 1)
