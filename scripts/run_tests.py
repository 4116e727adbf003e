"""Runs every test in a process of its own, as cargo-nextest does: some tests change limits or logs of their process.

Reads what `cargo test --no-run --message-format=json` prints. Prints a line per test in the format of `cargo test`.
The arguments are parts of test names; without any, all tests run.
"""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

PROCESSES = 6


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
            if name != entry and (len(sys.argv) == 1 or any(part in name for part in sys.argv[1:])):
                yield binary, directory, name


def run(test):
    binary, directory, name = test
    environment = {**os.environ, "CARGO_MANIFEST_DIR": directory}
    outcome = subprocess.run(
        [binary, "--exact", name, "--nocapture"], cwd=directory, env=environment, text=True, errors="replace",
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )
    passed = outcome.returncode == 0
    print(f"test {name} ... {'ok' if passed else 'FAILED'}", *([] if passed else [outcome.stdout]), sep="\n", flush=True)
    return passed


with ThreadPoolExecutor(PROCESSES) as processes:
    outcomes = list(processes.map(run, list(tests())))
print(f"{len(outcomes)} tests, {outcomes.count(False)} failed")
sys.exit(0 if outcomes and all(outcomes) else 1)
