# shellcheck shell=bash
# What the kits have in common: programs from npm and PyPI that tests and tools use, in directories below the user's
# cache directory. Sourced by tools/*_kit.sh and tools/node.sh.
#
# The directory of a kit is named after its pins, the script that installs it and the version of Python: checkouts with
# the same pins share it, others get a separate one. Kits that were not used for two months are removed.
#
# npm and pip use the user's configuration: registry, proxy, cache. Nothing is installed outside of the directory.
python=${PYTHON:-/usr/bin/python3}
cache=${XDG_CACHE_HOME:-~/.cache}/glovebox
kit_library=${BASH_SOURCE[0]}

say() { printf 'glovebox: %s\n' "$*" >&2; }

# kit_default NAME FILE... : the kit for these pins, the calling script and this Python
kit_default() {
    local name=$1 key
    shift
    key=$({
        cat "$0" "$kit_library" "$@"
        "$python" -VV
        uname -m
    } | sha256sum)
    echo "$cache/$name-kit-${key:0:16}"
}

# kit_open NAME DIRECTORY PURPOSE : creates it and waits for its lock, which is descriptor 9: what is installed runs
# without that, since processes that it leaves running must not hold it. Then the directory is in dir.
kit_open() {
    kit_purpose=$3
    mkdir -p "$2"
    dir=$(cd "$2" && pwd)
    exec 9>"$dir/lock"
    flock 9
    touch "$dir/lock" # records when the kit was last used
    [[ $dir == "$(cd "$cache" 2>/dev/null && pwd)"/* ]] || return 0
    find "$cache" -mindepth 2 -maxdepth 2 -path "*/$1-kit-*/lock" -mtime +60 -print0 |
        xargs -0 -r -n 1 dirname -z | xargs -0 -r rm -rf
}

# quietly NAME COMMAND... : shows the output only if it fails
quietly() {
    local name=$1
    shift
    if ! "$@" >"$dir/$name.log" 2>&1; then
        tail -n 30 "$dir/$name.log" >&2
        say "cannot install $name for $kit_purpose (${0#"$PWD/"})"
        return 1
    fi
}

# is_there PART FILE... : whether it was installed from these files, by this script. If not, it is removed, and stamp
# is what to write to PART/stamp when it is complete.
is_there() {
    local part=$1
    shift
    stamp=$(cat "$0" "$kit_library" "$@" | sha256sum)
    [[ -f $dir/$part/stamp && $(<"$dir/$part/stamp") == "$stamp" ]] && return
    say "installing $part for $kit_purpose to $dir/$part"
    rm -rf "${dir:?}/$part"
    return 1
}

# install_venv PART REQUIREMENTS : a virtual environment of these
install_venv() {
    local stamp
    ! is_there "$1" "$2" || return 0
    quietly "venv-$1" "$python" -m venv "$dir/$1"
    quietly "pip-$1" "$dir/$1/bin/python" -m pip install --disable-pip-version-check --no-input -r "$2"
    echo "$stamp" >"$dir/$1/stamp"
}

# install_npm PART DIRECTORY : what package.json and package-lock.json in DIRECTORY name
install_npm() {
    local stamp
    ! is_there "$1" "$2/package.json" "$2/package-lock.json" || return 0
    command -v npm >/dev/null || {
        say "npm is not installed (Debian: npm)"
        return 1
    }
    mkdir "$dir/$1"
    cp "$2/package.json" "$2/package-lock.json" "$dir/$1/"
    # A package may need a newer Node than the one that npm itself runs on: that is expected.
    (cd "$dir/$1" && quietly "npm-$1" npm ci --ignore-scripts --no-audit --no-fund --engine-strict=false)
    echo "$stamp" >"$dir/$1/stamp"
}
