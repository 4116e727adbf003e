#!/usr/bin/env bash
# rustdoc for `cargo test --doc`: checks the documentation of a crate before it runs the examples in it.
#
# `cargo doc` would do the same check, but it compiles all dependencies again first.
set -euo pipefail

arguments=()
is_test=
previous=
for argument; do
    case $argument in
    --test) is_test=yes ;;
    --test-run-directory) ;;
    *)
        if [[ $previous != --test-run-directory ]]; then
            arguments+=("$argument")
        fi
        ;;
    esac
    previous=$argument
done
if [[ -n $is_test ]]; then
    rustdoc "${arguments[@]}" -D warnings --out-dir "$DOCUMENTATION"
fi
exec rustdoc "$@"
