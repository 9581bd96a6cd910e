# shellcheck shell=bash
# Records cases, builds test programs only when needed, and proves that a tool is on. The scripts of
# ci that count source this file.
#
# Cases and test programs leave their outcomes in the folder SHMARRAY_JUNIT, which the runner gives
# to each suite. A caller of `run_cmocka` and `run_doctest` sets `directory`, the SHMARRAY_DIR that
# each program gets anew. A caller of `build` sets `sources`, the files that a program may be made
# from.

# shellcheck source=ci/shell/setup.sh
. ci/shell/setup.sh
# shellcheck source=ci/shell/newer.sh
. ci/shell/newer.sh

# The form of its checks that a script runs: one of `--quick`, `--ci`, `--release`, as of `ci/test`.
# No form repeats another. Without a word a script runs all of them.
form=all
case ${1-} in
    --quick | --ci | --release) form=${1#--} && shift ;;
esac

sources=()
directory=

if [ -z "${SHMARRAY_JUNIT-}" ]; then
    export SHMARRAY_JUNIT=$made/junit/${0##*/} PATH=$made/venv/bin:$PATH
    rm -rf "$SHMARRAY_JUNIT" && mkdir -p "$SHMARRAY_JUNIT"
    step "Python packages: JUnit files, nextest" counting_packages
fi

is_quick() { [ "$form" = quick ] || [ "$form" = all ]; }
is_ci() { [ "$form" = ci ] || [ "$form" = all ]; }
is_release() { [ "$form" = release ] || [ "$form" = all ]; }

# record OUTCOME NAME: one case; ci/checks/runner/junit.py lists the outcomes.
record() {
    printf '%s\t%s\n' "$1" "$2" >>"$SHMARRAY_JUNIT/cases"
}

# case_of NAME COMMAND…: one case, which passes if the command succeeds.
case_of() {
    local name=$1 outcome=passed
    shift
    "$@" || outcome=failed
    [ $outcome = passed ] || echo "FAILED: $name"
    record $outcome "$name"
}

# Runs a command that must succeed and print nothing: a warning is a failure.
silently() {
    local said
    if ! said=$("$@" 2>&1) || [ -n "$said" ]; then
        printf '%s\n%s\n' "$*" "$said"
        return 1
    fi
}

# build OUTPUT COMMAND…: compiles OUTPUT unless it is newer than every file it may be made from.
# Only a failure counts as a case, so that a second run counts as many cases as the first.
build() {
    local output=$1
    shift
    if is_newer_than "$output" "${sources[@]}" "$0" ci/shell/cases.sh; then
        return
    fi
    rm -f "$output"
    if ! silently "$@" -o "$output"; then
        echo "FAILED: compile $(basename "$output")"
        record failed "compile $(basename "$output")"
    fi
}

# run LABEL COMMAND…: runs a test program, which must write the file that `junit` names. Each
# program has a directory of its own, so that files left by one do not fail the next.
run() {
    local label=$1
    shift
    rm -rf "$directory" && mkdir "$directory"
    echo "$label" # first, so that the log names a program that hangs
    case_of "$label ends well" ends_well "$@"
    case_of "$label leaves nothing in shared memory" nothing_is_left_in "$directory"
}

ends_well() {
    local log
    # Without a pool, each file in the directory belongs to an array.
    log=$(SHMARRAY_DIR=$directory SHMARRAY_POOL_BYTES=0 "$@" 2>&1) && [ -s "$junit" ] && return
    echo "$log"
    cat "$junit"
    return 1
}

run_cmocka() {
    junit=$(mktemp -u "$SHMARRAY_JUNIT/cmocka-XXXXXX.xml")
    CMOCKA_MESSAGE_OUTPUT=xml CMOCKA_XML_FILE=$junit run "$@"
}

run_doctest() {
    junit=$(mktemp -u "$SHMARRAY_JUNIT/doctest-XXXXXX.xml")
    run "$@" -r=junit -o="$junit"
}

# at_least COUNT: whether so many tests have run.
at_least() {
    [ "$(cat "$SHMARRAY_JUNIT"/*.xml | grep -o '<testcase ' | wc -l)" -ge "$1" ]
}

nothing_is_left_in() {
    local left
    left=$(find "$1" -mindepth 1 -name 'shmarray-*' ! -name 'shmarray-registry-*')
    [ -z "$left" ] || { echo "left in $1: $left" && return 1; }
}

# must_catch WORDS COMMAND…: proves that a tool is on. The command runs a program with a known
# bug; it must fail and print the words.
must_catch() {
    local words=$1 said status=0
    shift
    said=$("$@" 2>&1) || status=$?
    if [ "$status" -eq 0 ] || [[ $said != *"$words"* ]]; then
        printf 'not caught: %s (exit %d)\n%s\n' "$words" "$status" "$said"
        return 1
    fi
    echo "caught, as it must be: $words"
}

# closing_line NAME: prints the counts. Succeeds if nothing failed and something ran.
closing_line() {
    python ci/checks/runner/junit.py "$1" "$SHMARRAY_JUNIT"
}
