# shellcheck shell=bash
# Counts cases, builds test programs only when needed, and proves that a tool is on. The scripts of
# ci that count source this file.
#
# A caller of `run` sets `directory`, the SHMARRAY_DIR that each program gets anew. A caller of
# `build` sets `sources`, the files that a program may be made from.

# shellcheck source=ci/shell/newer.sh
. ci/shell/newer.sh

# The form of its checks that a script runs: one of `--quick`, `--ci`, `--release`, as of `ci/test`.
# No form repeats another. Without a word a script runs all of them.
form=all
case ${1-} in
    --quick | --ci | --release) form=${1#--} && shift ;;
esac

passed=0
failed=0
left_out= # how many cases a script leaves out
sources=()
directory=

is_quick() { [ "$form" = quick ] || [ "$form" = all ]; }
is_ci() { [ "$form" = ci ] || [ "$form" = all ]; }
is_release() { [ "$form" = release ] || [ "$form" = all ]; }

# case_of NAME COMMAND…: one case, which passes if the command succeeds.
case_of() {
    local name=$1
    shift
    if "$@"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $name"
    fi
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
        failed=$((failed + 1))
        echo "FAILED: compile $(basename "$output")"
    fi
}

# run LABEL COMMAND…: runs a test program and adds the counts that cmocka or doctest print. A
# program that prints no count, or dies, is one failure. Each program has a directory of its own, so
# that files left by one do not fail the next.
run() {
    local label=$1 log status=0 good all
    shift
    rm -rf "$directory" && mkdir "$directory"
    printf '%-40s ' "$label" # first, so that the log names a program that hangs
    # Without a pool, each file in the directory belongs to an array.
    log=$(SHMARRAY_DIR=$directory SHMARRAY_POOL_BYTES=0 "$@" 2>&1) || status=$?
    good=$(counted "$log" '\[  PASSED  \] ([0-9]+) test' 'test cases: +[0-9]+ \| +([0-9]+) passed')
    all=$(counted "$log" '([0-9]+) test\(s\) run\.' 'test cases: +([0-9]+) \|')
    if [ "$all" -eq "$good" ] && { [ "$status" -ne 0 ] || [ "$all" -eq 0 ]; }; then
        all=$((all + 1))
    fi
    printf '%3d passed, %d failed\n' "$good" $((all - good))
    [ "$all" -eq "$good" ] || echo "$log"
    passed=$((passed + good))
    failed=$((failed + all - good))
    case_of "$label leaves nothing in shared memory" nothing_is_left_in "$directory"
}

# counted TEXT PATTERN…: the first number that a pattern finds in the text, or 0.
counted() {
    local pattern
    for pattern in "${@:2}"; do
        if [[ $1 =~ $pattern ]]; then
            echo "${BASH_REMATCH[1]}"
            return
        fi
    done
    echo 0
}

# count_tests LOG: adds the counts of cargo's result lines in a log.
count_tests() {
    local good bad pattern='^test result: [A-Za-z]*\. \([0-9]*\) passed; \([0-9]*\) failed.*'
    while read -r good bad; do
        passed=$((passed + good))
        failed=$((failed + bad))
    done < <(sed -n "s/$pattern/\1 \2/p" "$1")
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

# Prints the closing line. Succeeds if nothing failed and something ran.
closing_line() {
    echo "$1: $passed passed, $failed failed${left_out:+, $left_out skipped}"
    [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
}
