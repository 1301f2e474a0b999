#!/usr/bin/env bash
# Builds the web page, web/dist, from web/src. The result is committed, so that a build of Glovebox needs no Node.
#
#   tools/web.sh            checks the types and builds web/dist
#   tools/web.sh --check    builds elsewhere and fails if the bytes differ from those of web/dist
#   tools/web.sh --node     installs the packages and prints the path of a Node that can use them, for tests
#
# The packages of web/package-lock.json go to web/node_modules when that is not what the lock file says. `npm install`
# and not `npm ci`: a registry may lack packages of other platforms, which the lock file lists as optional. It must not
# change the lock file, which has hashes but no addresses.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root/web"
say() { printf 'glovebox: %s\n' "$*" >&2; }

install_packages() {
    local stamp before
    exec 9<. # several at a time take turns
    flock 9
    stamp=$(sha256sum package.json package-lock.json)
    # A link is somebody's own arrangement: checkouts side by side that share one.
    [[ ! -L node_modules ]] || return 0
    [[ ! -f node_modules/.glovebox || $(<node_modules/.glovebox) != "$stamp" ]] || return 0
    command -v npm >/dev/null || {
        say "npm is not installed (Debian: npm)"
        return 1
    }
    say "installing the packages of web/package-lock.json"
    before=$(<package-lock.json)
    npm install --no-save --ignore-scripts --no-audit --no-fund --engine-strict=false >&2
    if [[ $(<package-lock.json) != "$before" ]]; then
        printf '%s\n' "$before" >package-lock.json
        say "web/package-lock.json does not fit to web/package.json: run npm install in web, and look at what changed"
        return 1
    fi
    echo "$stamp" >node_modules/.glovebox
    exec 9<&-
}

case ${1:-build} in
build | --check | --node) ;;
*)
    say "usage: tools/web.sh [--check | --node]"
    exit 2
    ;;
esac
node=$("$root/tools/node.sh")
install_packages
if [[ ${1:-build} == --node ]]; then
    echo "$node"
    exit
fi
"$node" node_modules/typescript/bin/tsc --noEmit
if [[ ${1:-build} == build ]]; then
    "$node" node_modules/vite/bin/vite.js build --logLevel warn
    exit
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$node" node_modules/vite/bin/vite.js build --logLevel warn --outDir "$scratch/dist" --emptyOutDir
if ! diff -rq dist "$scratch/dist" >&2; then
    say "web/dist is not what web/src builds: run make web and commit web/dist"
    exit 1
fi
