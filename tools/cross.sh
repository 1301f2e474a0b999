#!/usr/bin/env bash
# Builds the binary for aarch64 on another Debian machine: build-aarch64/glovebox, all warnings
# errors, no tests. Missing packages are installed first (group `cross` of packages.txt).
#
#   tools/cross.sh [MESON-ARGUMENT...]      e.g. -Doptimization=0, for the first setup of the build
#
# The arm64 libraries are not installed but unpacked to build-aarch64/system, with a private state
# of apt: that needs no root, and dpkg does not need to know a second architecture. If they were
# installed, Python and libc of this machine would have to have exactly the same version, and be
# upgraded for it. They stay until `make clean`.
set -euo pipefail
cd "$(dirname "$0")/.."

build='build-aarch64'
system=$build/system

say() { printf 'cross: %s\n' "$*" >&2; }

# packages : the arm64 packages; with Python's headers for the Python that the template is built for
packages() {
    local dev=(libjansson-dev libmicrohttpd-dev libsqlite3-dev libsodium-dev libarchive-dev zlib1g-dev
        libc-ares-dev libgnutls28-dev libwslay-dev libpq-dev libcmark-gfm-dev
        libcmark-gfm-extensions-dev)
    # Either will do (packages.txt): the one that is installed here.
    # shellcheck disable=SC2016 # fields of dpkg, not variables
    dev+=("$(dpkg-query -W -f='${db:Status-Abbrev} ${Package}\n' libcurl4-openssl-dev \
        libcurl4-gnutls-dev 2>/dev/null | awk '/^ii/ { print $2; exit }')")
    echo "${dev[@]}"
    # The headers require the library itself in exactly the same version. Its name contains a
    # number and, on newer systems, t64: take it from this machine's own package.
    # shellcheck disable=SC2016 # a field of dpkg, not a variable
    dpkg-query -W -f='${Depends}\n' "${dev[@]}" | grep -o '[a-z0-9.+-]* (= ' | cut -d' ' -f1
    /usr/bin/python3 -c 'import sys; print("libpython%d.%d-dev" % sys.version_info[:2])'
}

# fetch DIR PACKAGE... : downloads the arm64 packages there, from the sources of this machine
fetch() {
    local dir=$1
    shift
    mkdir -p "$dir"/{lists,cache/archives}/partial
    : >"$dir/status"
    # Its sandbox user could not write here; downloads are checked by signature and hash.
    local options=(-qq -o APT::Sandbox::User=root -o APT::Architecture=arm64
        -o APT::Architectures=arm64 -o Dir::State="$dir" -o Dir::State::status="$dir/status"
        -o Dir::State::lists="$dir/lists" -o Dir::Cache="$dir/cache")
    # A source without arm64 fails, which does not matter if another has the packages.
    apt-get "${options[@]}" update || say "apt-get update failed; continuing"
    (cd "$dir" && apt-get "${options[@]}" download "$@")
}

# libraries : creates the directory of the arm64 libraries, unless it exists
libraries() {
    local names scratch deb
    names=$(packages | xargs)
    if [[ $(cat "$system/packages" 2>/dev/null) == "$names" ]]; then
        return
    fi
    mkdir -p "$build"
    scratch=$(mktemp -d "$PWD/$build/scratch.XXXXXX")
    # shellcheck disable=SC2064 # the current value
    trap "rm -rf '$scratch'" EXIT
    say "downloading for arm64: $names"
    # shellcheck disable=SC2086 # names, split on purpose
    if ! command -v apt-get >/dev/null || ! fetch "$scratch/apt" $names; then
        say "cannot download these arm64 packages: $names"
        say "Debian's archive has them; Ubuntu keeps arm64 in another one, called ports, which must"
        say "be among the sources of apt."
        exit 1
    fi
    for deb in "$scratch"/apt/*.deb; do
        dpkg-deb -x "$deb" "$scratch/system"
    done
    # The dependencies of a library are needed only for static linking, and are not here.
    sed -i '/^Requires.private:/d' "$scratch"/system/usr/lib/aarch64-linux-gnu/pkgconfig/*.pc
    echo "$names" >"$scratch/system/packages"
    rm -rf "$system"
    mv "$scratch/system" "$system"
    # A build that was configured with other libraries is configured again.
    rm -rf "$build/build.ninja" "$build/meson-private" "$build/meson-info"
}

if [[ $(uname -m) == aarch64 ]]; then
    say "this machine is aarch64 itself: make build"
    exit 0
fi
tools/deps.sh build cross
libraries
if [[ ! -f $build/build.ninja ]]; then
    printf "[constants]\nsystem = '%s'\n" "$PWD/$system" >"$build/system.ini"
    meson setup "$build" --cross-file "$build/system.ini" --cross-file tools/cross/aarch64.ini \
        --werror -Dtests=disabled "$@"
fi
ninja -C "$build" all bench_engine

if ! readelf -h "$build/glovebox" | grep -q 'Machine: *AArch64'; then
    say "$build/glovebox is not for aarch64"
    exit 1
fi
