#!/usr/bin/env bash
# Prints the path of a Node that is new enough for what we use it for: the one in the PATH if it is 22.12 or later, else
# Node 22 in the version that tools/node pins, which is installed to a cache directory first (see tools/kit.sh).
#
# It is installed as the package that npm's `node@22` would fetch in an install script; requested by name, it also works
# if scripts are disabled.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=tools/kit.sh
. "$root/tools/kit.sh"

is_new() {
    "$1" -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 22 || (a === 22 && b >= 12) ? 0 : 1)' \
        2>/dev/null
}

if found=$(command -v node) && is_new "$found"; then
    echo "$found"
    exit
fi
pins=$root/tools/node
kit_open node "$(kit_default node "$pins/package.json" "$pins/package-lock.json")" "tools and tests"
install_npm node "$pins" 9>&-
echo "$dir"/node/node_modules/node-linux-*/bin/node
