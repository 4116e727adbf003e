#!/usr/bin/env bash
# Prints line coverage per crate. Needs cargo-llvm-cov, and llvm-profdata and llvm-cov of the compiler's LLVM version:
# programs named by LLVM_PROFDATA and LLVM_COV, rustup's component `llvm-tools`, or Debian's package `llvm-VERSION`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/install.sh

has_llvm_tools() {
    if [[ -n ${LLVM_PROFDATA-} && -n ${LLVM_COV-} ]] ||
        compgen -G "$(rustc --print sysroot)/lib/rustlib/*/bin/llvm-profdata" >/dev/null ||
        rustup component add llvm-tools >/dev/null 2>&1; then
        return
    fi
    local folder
    folder=/usr/lib/llvm-$(llvm_version)/bin
    export LLVM_PROFDATA=$folder/llvm-profdata LLVM_COV=$folder/llvm-cov
    [[ -x $LLVM_PROFDATA && -x $LLVM_COV ]]
}

if ! command -v cargo-llvm-cov >/dev/null; then
    echo "coverage was not measured: cargo-llvm-cov is not installed"
    exit 0
fi
if ! has_llvm_tools; then
    echo "coverage was not measured: install rustup's component llvm-tools or Debian's llvm of the compiler's LLVM version"
    exit 0
fi

target=$(cd "${CARGO_TARGET_DIR:-target}" && pwd)
cargo build -q --locked -p backstitch-testkit --bin with-postgres
# The tests look for the fuzzer in their own target directory.
mkdir -p "$target/llvm-cov-target"
ln -sfn "$target/fuzz-venv" "$target/llvm-cov-target/fuzz-venv"
# Without this, the profiles of an earlier run would count too.
cargo llvm-cov clean --workspace
status=0
"$target/debug/with-postgres" cargo llvm-cov nextest --no-report --locked --workspace --no-fail-fast \
    --status-level fail || status=$?
cargo llvm-cov report --json --output-path "$target/coverage.json"
python3 - "$target/coverage.json" <<'PYTHON'
import collections
import json
import re
import sys

covered, lines = collections.Counter(), collections.Counter()
for file in json.load(open(sys.argv[1]))["data"][0]["files"]:
    crate = re.search(r"/crates/(\w+)/src/", file["filename"])
    if crate:
        covered[crate[1]] += file["summary"]["lines"]["covered"]
        lines[crate[1]] += file["summary"]["lines"]["count"]
for crate in sorted(lines):
    print(f"{100 * covered[crate] / lines[crate]:6.1f} %  of {lines[crate]:6} lines  {crate}")
PYTHON
exit "$status"
