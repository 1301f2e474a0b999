#!/usr/bin/env bash
# Installs the programs for the MCP proofs: Node 22, the official conformance suite, the
# official clients and mcpo, in the versions that tests/mcp pins.
#
#   tools/mcp_kit.sh [DIRECTORY]    prints nothing when all of it is installed already
#   tools/mcp_kit.sh --where        prints the default directory
#
# The default is below the user's cache directory and is named after the pins, this script and the
# version of Python: checkouts with the same pins share it, others get a separate one. Kits that
# were not used for two months are removed. Downloads take a minute.
#
# npm and pip use the user's configuration: registry, proxy, cache. Nothing is installed outside
# of DIRECTORY. Node is installed as the package that npm's `node@22` would fetch in an install
# script; requested by name, it also works if scripts are disabled.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
pins=$root/tests/mcp
python=${PYTHON:-/usr/bin/python3}
cache=${XDG_CACHE_HOME:-~/.cache}/glovebox

say() { printf 'glovebox: %s\n' "$*" >&2; }

# default_dir : the kit for these pins, this script and this Python
default_dir() {
    local key
    key=$({
        cat "$0" "$pins"/package*.json "$pins"/requirements-*.txt
        "$python" -VV
        uname -m
    } | sha256sum)
    echo "$cache/mcp-kit-${key:0:16}"
}

# quietly NAME COMMAND... : shows the output only if it fails
quietly() {
    local name=$1
    shift
    if ! "$@" >"$dir/$name.log" 2>&1; then
        tail -n 30 "$dir/$name.log" >&2
        say "cannot install $name for the MCP proofs (tools/mcp_kit.sh)"
        return 1
    fi
}

# is_there PART FILE... : whether it was installed from these files, by this script
is_there() {
    local part=$1
    shift
    stamp=$(cat "$0" "$@" | sha256sum)
    [[ -f $dir/$part/stamp && $(<"$dir/$part/stamp") == "$stamp" ]] && return
    say "installing the official programs for the MCP proofs to $dir/$part"
    rm -rf "${dir:?}/$part"
    return 1
}

install_node() {
    local stamp
    ! is_there node "$pins/package.json" "$pins/package-lock.json" || return 0
    command -v npm >/dev/null || {
        say "npm is not installed (Debian: npm)"
        return 1
    }
    mkdir "$dir/node"
    cp "$pins/package.json" "$pins/package-lock.json" "$dir/node/"
    # The suite needs a newer Node than the one that npm itself may run on: that is expected.
    (cd "$dir/node" && quietly npm npm ci --ignore-scripts --no-audit --no-fund --engine-strict=false)
    ln -s "$(cd "$dir/node/node_modules" && echo "$PWD"/node-linux-*/bin/node)" "$dir/node/node"
    [[ $("$dir/node/node" --version) == v22.* ]]
    echo "$stamp" >"$dir/node/stamp"
}

# install_python NAME : a virtual environment of requirements-NAME.txt
install_python() {
    local stamp pinned=$pins/requirements-$1.txt
    ! is_there "$1" "$pinned" || return 0
    quietly "venv-$1" "$python" -m venv "$dir/$1"
    quietly "pip-$1" "$dir/$1/bin/python" -m pip install --disable-pip-version-check --no-input \
        -r "$pinned"
    echo "$stamp" >"$dir/$1/stamp"
}

dir=${1:-$(default_dir)}
if [[ $dir == --where ]]; then
    default_dir
    exit
fi
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
exec 9>"$dir/lock"
flock 9
touch "$dir/lock" # records when the kit was last used
if [[ $# == 0 || $dir == "$(default_dir)" ]]; then
    find "$cache" -mindepth 2 -maxdepth 2 -path '*/mcp-kit-*/lock' -mtime +60 -print0 |
        xargs -0 -r -n 1 dirname -z | xargs -0 -r rm -rf
fi

# Without the lock: processes that they leave running must not hold it.
install_node 9>&- &
jobs=($!)
install_python v1 9>&- &
jobs+=($!)
install_python v2 9>&- &
jobs+=($!)
failed=0
for job in "${jobs[@]}"; do
    wait "$job" || failed=1
done
exit "$failed"
