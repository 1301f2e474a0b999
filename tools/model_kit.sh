#!/usr/bin/env bash
# Installs the official Python packages of OpenAI, Anthropic and Google, in the versions that
# tests/system/model_requirements.txt pins, for the proof that our stand-ins for their servers are
# faithful: to DIRECTORY/venv. An emulator of BigQuery goes to DIRECTORY/emulator, as pinned by
# tests/system/emulator_requirements.txt.
#
#   tools/model_kit.sh [DIRECTORY]    prints nothing when it is installed already
#   tools/model_kit.sh --where        prints the default directory
#
# The default is below the user's cache directory and is named after the pins, this script and the
# version of Python, as with tools/mcp_kit.sh. Kits that were not used for two months are removed.
# pip uses the user's configuration: index, proxy, cache. Nothing is installed outside of DIRECTORY.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
pinned=$root/tests/system/model_requirements.txt
emulator=$root/tests/system/emulator_requirements.txt
python=${PYTHON:-/usr/bin/python3}
cache=${XDG_CACHE_HOME:-~/.cache}/glovebox

say() { printf 'glovebox: %s\n' "$*" >&2; }

# default_dir : the kit for these pins, this script and this Python
default_dir() {
    local key
    key=$({
        cat "$0" "$pinned" "$emulator"
        "$python" -VV
        uname -m
    } | sha256sum)
    echo "$cache/model-kit-${key:0:16}"
}

# quietly COMMAND... : shows the output only if it fails
quietly() {
    if ! "$@" >"$dir/log" 2>&1; then
        tail -n 30 "$dir/log" >&2
        say "cannot install the packages for the model proofs (tools/model_kit.sh)"
        return 1
    fi
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
    find "$cache" -mindepth 2 -maxdepth 2 -path '*/model-kit-*/lock' -mtime +60 -print0 |
        xargs -0 -r -n 1 dirname -z | xargs -0 -r rm -rf
fi

stamp=$(cat "$0" "$pinned" "$emulator" | sha256sum)
[[ ! -f $dir/stamp || $(<"$dir/stamp") != "$stamp" ]] || exit 0
say "installing the packages for the model proofs to $dir"
rm -rf "$dir/venv" "$dir/emulator"
# Without the lock: processes that they leave running must not hold it.
quietly "$python" -m venv "$dir/venv" 9>&-
quietly "$dir/venv/bin/python" -m pip install --disable-pip-version-check --no-input -r "$pinned" 9>&-
# The emulator needs Python 3.11; with an older one its test is skipped.
if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    quietly "$python" -m venv --without-pip "$dir/emulator" 9>&-
    quietly "$dir/venv/bin/python" -m pip --python "$dir/emulator/bin/python" install \
        --disable-pip-version-check --no-input --no-deps --no-compile -r "$emulator" 9>&-
fi
echo "$stamp" >"$dir/stamp"
