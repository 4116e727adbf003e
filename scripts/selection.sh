# shellcheck shell=bash
# Which tests `cargo nextest run` selects for the arguments of `./test`.

# select_tests ARGUMENT…: sets `selection` to arguments that select from the whole workspace.
#
# A package becomes a filter: for one package alone Cargo would select other features and compile again. nextest runs what any
# of several filters selects, so all of them become one: the tests of these packages that match.
select_tests() {
    local packages='' filters=''
    selection=()
    while [[ $# -gt 0 ]]; do
        case $1 in
        -p | --package | -E | --filterset | --filter-expr)
            if [[ $# -lt 2 ]]; then
                echo "$1 needs a value" >&2
                return 2
            fi
            ;;&
        -p | --package) packages+=" + package($2)" && shift ;;
        --package=*) packages+=" + package(${1#*=})" ;;
        -p?*) packages+=" + package(${1#-p})" ;;
        -E | --filterset | --filter-expr) filters+=" + ($2)" && shift ;;
        --filterset=* | --filter-expr=*) filters+=" + (${1#*=})" ;;
        -E?*) filters+=" + (${1#-E})" ;;
        --)
            break
            ;;
        *) selection+=("$1") ;;
        esac
        shift
    done
    if [[ -n $packages && -n $filters ]]; then
        selection+=(-E "(${packages# + }) & (${filters# + })")
    elif [[ -n $packages$filters ]]; then
        selection+=(-E "${packages# + }${filters# + }")
    fi
    # What follows `--` is for the tests.
    selection+=("$@")
}
