# shellcheck shell=bash
# shellcheck disable=SC2034 # its callers use what is set here
# Installs the library, and builds the tests in C and C++ as programs that use it. ci/test-c,
# ci/sanitize and ci/valgrind source this file after cases.sh.

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
prefix=$target/ci/prefix
built=$target/ci/${0##*/}
mkdir -p "$built"

library() {
    ci/install "$prefix"
}

step "C library: build and install" library

shm=$(mktemp -d "/dev/shm/shmarray-${0##*/}.XXXXXX")
trap 'rm -rf "$shm"' EXIT
directory=$shm/segments
export LD_LIBRARY_PATH=$prefix/lib PKG_CONFIG_PATH=$prefix/lib/pkgconfig

warnings=(-Wall -Wextra -Wpedantic -Werror)
# C++ compilers find more with these.
more_warnings=("${warnings[@]}" -Wconversion -Wshadow)
read -ra shared <<< "$(pkg-config --cflags --libs shmarray)"
npy_corpus=$built/npy_corpus
mkdir -p "$npy_corpus"
tar -xzf core/tests/behaviour/npy_corpus/files.tar.gz -C "$npy_corpus"
facts=(
    "-DSHMARRAY_VERSION=\"$(pkg-config --modversion shmarray)\""
    "-DSHMARRAY_LIBRARY=\"$prefix/lib/libshmarray.so\""
    "-DSHMARRAY_MAP=\"$PWD/include/shmarray.map\""
    "-DSHMARRAY_CORPUS=\"$npy_corpus\""
    "-DSHMARRAY_GOLDEN_LISTS=\"$PWD/ci/checks/golden/lists\""
    "-DSHMARRAY_HEADER=\"$prefix/include/shmarray.h\""
)
# The tests of C. load.c needs the shared library, abi.c is checked by its exit code.
c_tests=(array dlpack errors processes messages channels dicts fds forks full lists npy npz
    options signals starts threads)
installed=("$prefix"/include/shmarray.h* "$prefix"/include/shmarray/* "$prefix"/lib/libshmarray.*)

# build_c OUTPUT TEST COMPILER WORD…: one program of the tests in C, linked by the last words.
build_c() {
    sources=(ffi/tests/c/*.[ch] "${installed[@]}")
    build "$1" "$3" -std=c11 -D_GNU_SOURCE "${warnings[@]}" "${facts[@]}" "ffi/tests/c/$2.c" \
        "${@:4}" -lcmocka -ldl
}

# build_cpp OUTPUT COMPILER WORD…: the tests in C++ as one program. They are one file for the
# compiler, which then reads the headers and instantiates the templates once.
build_cpp() {
    sources=(bindings/cpp/tests/*.[ch]pp "${installed[@]}")
    printf '#include "%s"\n' "$PWD"/bindings/cpp/tests/{main,*_test}.cpp > "$built/all.cpp"
    build "$1" "$2" "${more_warnings[@]}" "${facts[@]}" "$built/all.cpp" "${@:3}"
}

# build_bugs OUTPUT COMPILER WORD…: the program with known bugs.
build_bugs() {
    sources=(ci/known_bugs/bugs.c "${installed[@]}")
    build "$1" "$2" -std=c11 -D_GNU_SOURCE "${warnings[@]}" ci/known_bugs/bugs.c "${@:3}"
}
