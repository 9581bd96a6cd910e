# shellcheck shell=bash
# shellcheck disable=SC2034 # its caller uses what is set here
# Builds the C library of one target from Rust's static library. ci/install sources this file.
#
# `build_library` sets `built`, `command` and `stage`, the folder with what is linked. The folder is
# that of the target, so no build finds the libraries of another target. With `unsplit` the debug
# sections stay in the shared library.

# shellcheck source=ci/shell/newer.sh
. ci/shell/newer.sh

map=include/shmarray.map
# What rustc prints for Linux with --print native-static-libs, without the libraries that every C
# compiler adds by itself: the C library, and libgcc, whose name differs under -static.
system_libraries="-lutil -lrt -lpthread -lm -ldl"

# The first `KEY = "VALUE"` of the workspace's manifest.
manifest_value() {
    sed -n "s/^$1 = \"\(.*\)\"\$/\1/p" Cargo.toml | head -n 1
}

version=$(manifest_value version)
repository=$(manifest_value repository)
abi=${version%%.*}
real=libshmarray.so.$version
soname=libshmarray.so.$abi

refuse() {
    echo "ci/install: $*" >&2
    return 1
}

# Chooses the words of the C compiler for the target. The first is a path, so that Cargo builds
# nothing again for another spelling.
choose_compiler() {
    find_compiler || return
    local path
    path=$(command -v "${compiler[0]}") || refuse "${compiler[0]} is missing" || return
    compiler[0]=$path
}

# The words of the C compiler for the target. CC decides, then Cargo's linker for the target, then
# the names that Debian and others give to cross compilers.
find_compiler() {
    local triple=${CARGO_BUILD_TARGET:-} name linker
    read -ra compiler <<<"${CC:-cc}"
    [ -n "$triple" ] && [ -z "${CC:-}" ] || return 0
    [ "$triple" != "$(rustc -vV | sed -n 's/^host: //p')" ] || return 0
    linker=$(linker_variable "$triple")
    for name in "${!linker:-}" "${triple/-unknown/}-gcc" "$triple-gcc"; do
        if command -v "$name" >/dev/null; then
            compiler=("$name")
            return
        fi
    done
    refuse "no C compiler for $triple was found: set CC"
}

linker_variable() {
    local name=${1//[-.]/_}
    echo "CARGO_TARGET_${name^^}_LINKER"
}

# Cargo links the command with the compiler that links the library.
tell_cargo_the_linker() {
    local linker
    [ -n "${CARGO_BUILD_TARGET:-}" ] && [ ${#compiler[@]} -eq 1 ] || return 0
    linker=$(linker_variable "$CARGO_BUILD_TARGET")
    [ -n "${!linker:-}" ] || export "$linker=${compiler[0]}"
}

# tool NAME: the compiler's own binary tool, which is the one for its target.
tool() {
    "${compiler[@]}" -print-prog-name="$1"
}

# cargo_build PACKAGE…: builds, and prints what cargo says that it made. The paths come from cargo,
# since they depend on the target, the profile and the user's configuration.
cargo_build() {
    # shellcheck disable=SC2086 # a list of words
    cargo build --release ${CARGOFLAGS:-} --message-format=json-render-diagnostics "${@/#/-p}"
}

# Class and machine of an object or of the first object in an archive, as in "ELF64 AArch64".
architecture() {
    LC_ALL=C readelf -h "$1" 2>/dev/null |
        awk -F': *' '/Class:|Machine:/ && n++ < 2 { printf "%s%s", n == 2 ? " " : "", $2 }'
}

# The library must be of the architecture that the compiler makes programs for.
check_architecture() {
    local ours theirs probe=$stage/probe.$$.o
    "${compiler[@]}" -c -x c -o "$probe" /dev/null || return
    ours=$(architecture "$built")
    theirs=$(architecture "$probe")
    rm "$probe"
    [ "$ours" = "$theirs" ] || refuse "the library is built for $ours, and ${compiler[*]}" \
        "compiles for $theirs: set CARGO_BUILD_TARGET and CC to the same target"
}

pointer_bytes() {
    case $(architecture "$built") in
        ELF32*) echo 4 ;;
        *) echo 8 ;;
    esac
}

listed_symbols() {
    sed -n 's/^ *\(shma_[a-z0-9_]*\);$/\1/p' "$map" | sort
}

# exported_symbols TABLE FILE: the defined symbols that other files see, in a dynamic table
# (dyn-syms) or in that of an object (syms).
exported_symbols() {
    readelf --wide "--$1" "$2" | awk '$5 ~ /GLOBAL|WEAK|UNIQUE/ && $6 !~ /HIDDEN|INTERNAL/ &&
        $7 ~ /^[0-9]+$/ { sub(/@.*/, "", $8); print $8 }' | sort
}

# check_symbols TABLE FILE: the file must have every listed symbol and no other.
check_symbols() {
    local different
    if ! different=$(diff <(listed_symbols) <(exported_symbols "$1" "$2")); then
        refuse "$2 and $map differ (< listed, > exported): $different"
    fi
}

# The undefined symbols that GNU ld leaves behind, as local ones, when it drops the sections that
# referred to them.
unneeded_symbols() {
    readelf --wide --syms "$1" | awk '$5 == "LOCAL" && $7 == "UND" && $8 != "" { print $8 }'
}

# Links one object from the listed functions and what they need of Rust's static library. Section
# groups are dissolved: of two groups with one name a linker drops the second, and another Rust
# archive in the program has groups of the same names.
link_object() {
    local new=$stage/shmarray.$$ roots unneeded
    mapfile -t roots < <(listed_symbols)
    "${compiler[@]}" -r -nostdlib -o "$new.o" "${roots[@]/#/-Wl,--require-defined=}" "$built" \
        -Wl,--gc-sections -Wl,--force-group-allocation || return
    mapfile -t unneeded < <(unneeded_symbols "$new.o")
    # Only our symbols stay global: those of Rust, such as rust_eh_personality, are defined again in
    # every archive that another version of Rust has made. The bitcode that the standard library
    # carries goes, too.
    "$(tool objcopy)" --remove-section=.llvmbc --remove-section=.llvmcmd \
        "${unneeded[@]/#/--strip-unneeded-symbol=}" "${roots[@]/#/--keep-global-symbol=}" \
        "$new.o" || return
    check_symbols syms "$new.o" || return
    mv "$new.o" "$stage/shmarray.o"
}

# rustc's own version script for a cdylib cannot be combined with ours, so the shared library is
# linked here. The debug sections, line tables, are not compressed: the tools that split and
# deduplicate them for packages refuse that.
link_shared() {
    local new=$stage/$real.$$
    # shellcheck disable=SC2086 # lists of words
    "${compiler[@]}" -shared -o "$new" "$stage/shmarray.o" $system_libraries \
        -Wl,-soname,"$soname" -Wl,--version-script="$map" -Wl,--no-undefined -Wl,--as-needed \
        -Wl,--gc-sections -Wl,-z,relro,-z,now -Wl,-z,noexecstack \
        -Wl,--compress-debug-sections=none -Wl,--build-id \
        ${LDFLAGS:-} || return
    check_symbols dyn-syms "$new" || return
    [ -n "$unsplit" ] || split_debug "$new" || return
    mv "$new" "$stage/$real"
}

# split_debug FILE: moves the debug sections to a file of their own, which debuggers and Rust's
# backtraces find beside the library, so that one from somebody's data loader still names a line.
split_debug() {
    mkdir -p "$stage/.debug"
    "$(tool objcopy)" --only-keep-debug "$1" "$stage/.debug/$real.debug" || return
    chmod 644 "$stage/.debug/$real.debug"
    "$(tool strip)" --strip-unneeded "$1" || return
    "$(tool objcopy)" --add-gnu-debuglink="$stage/.debug/$real.debug" "$1"
}

pack_static() {
    local new=$stage/libshmarray.a.$$
    rm -f "$new"
    "$(tool ar)" rcsD "$new" "$stage/shmarray.o" || return
    mv "$new" "$stage/libshmarray.a"
}

# put_text FILE: writes standard input to the file, unless the file has that text.
put_text() {
    local text
    text=$(cat)
    [ -e "$1" ] && [ "$(cat "$1")" = "$text" ] || echo "$text" >"$1"
}

link_what_changed() {
    local sources=("$stage/linked-with" ci/shell/library.sh Cargo.toml "$map")
    echo "${compiler[*]} ${LDFLAGS:-} $unsplit" | put_text "$stage/linked-with"
    is_newer_than "$stage/shmarray.o" "$built" "${sources[@]}" || link_object || return
    is_newer_than "$stage/$real" "$stage/shmarray.o" "${sources[@]}" || link_shared || return
    is_newer_than "$stage/libshmarray.a" "$stage/shmarray.o" || pack_static
}

# build_library PACKAGE…: builds these packages, of which shmarray-ffi is one, and links both forms
# of the library.
build_library() {
    local made
    choose_compiler || return
    tell_cargo_the_linker
    made=$(cargo_build "$@") || return
    built=$(sed -n 's/.*"\([^"]*\/libshmarray_ffi\.a\)".*/\1/p' <<<"$made")
    command=$(sed -n 's/.*"executable":"\([^"]*\/shmarray\)".*/\1/p' <<<"$made")
    stage=$(dirname "$built")/link
    mkdir -p "$stage"
    check_architecture || return
    link_what_changed
}
