# shellcheck shell=bash disable=SC2154 # The scripts that source this set `target`.
# Runs the stages of a script and reports how long each took.

stage_names=()
stage_seconds=()
stage_running=
# Removed at the end of the script, whatever its outcome.
temporary_folder=

# stage NAME COMMAND…: runs the command. Not in a condition: there, bash would not stop at a failing command of a function.
stage() {
    local begin=$SECONDS
    stage_running=$1
    shift
    printf '\n== %s\n' "$stage_running"
    "$@"
    stage_names+=("$stage_running")
    stage_seconds+=($((SECONDS - begin)))
    stage_running=
}

finish() {
    local status=$?
    if [[ -n ${log-} && -f $log ]]; then
        slowest_tests "$log"
        mv "$log" "$target/test.log"
    fi
    if [[ ${#stage_names[@]} -gt 0 ]]; then
        stage_summary
    fi
    if [[ $status -ne 0 && -n $stage_running ]]; then
        printf '\nfailed in stage "%s"\n' "$stage_running" >&2
    fi
    # A process that is still ending may write while the folder is removed. That does not fail the run.
    if [[ -n $temporary_folder ]]; then
        rm -rf "$temporary_folder" 2>/dev/null || { sleep 1 && rm -rf "$temporary_folder"; } || true
    fi
}
trap finish EXIT
# Bash runs these when the current command has ended, so the temporary folder is not removed under running tests.
trap 'exit 143' TERM
trap 'exit 129' HUP

stage_summary() {
    local index
    printf '\n== stages\n'
    for index in "${!stage_names[@]}"; do
        printf '%6d s  %s\n' "${stage_seconds[index]}" "${stage_names[index]}"
    done
    printf '%6d s  total\n' "$SECONDS"
}

# slowest_tests LOG: the ten tests that took longest, by the log of nextest or of run_tests.py.
slowest_tests() {
    printf '\n== slowest tests\n'
    sed -nE -e 's/^ *(PASS|LEAK) \[ *([0-9.]+)s\] (\([^)]*\) )?(.*)$/\2 \4/p' \
        -e 's/^test (.*) \.\.\. ok <([0-9.]+)s>$/\2 \1/p' "$1" | sort -rn |
        # Reads to the end: a reader that stops early would make sort fail, and the script with it.
        awk 'NR <= 10 { seconds = $1; sub(/^[^ ]+ /, ""); printf "%8.1f s  %s\n", seconds, $0 }'
}
