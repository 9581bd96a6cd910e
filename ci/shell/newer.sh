# shellcheck shell=bash
# Sourced by what builds only what has changed.

# is_newer_than FILE SOURCE…: whether the file exists and every source is older.
is_newer_than() {
    local made=$1 source
    shift
    for source in "$@"; do
        [ "$made" -nt "$source" ] || return 1
    done
}
