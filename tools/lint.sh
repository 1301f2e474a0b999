#!/usr/bin/env bash
# Reads the sources without running them. Each check is one TAP line; its report follows when it
# fails.
#
#   tools/lint.sh [CHECK...]      format tidy shellcheck codespell includes; all of them by default
#
# BUILD names the build directory whose compile commands clang-tidy reads (default: build). With
# CI=true its analyzer does not follow every call: that takes seven times as long, and is left to
# `make lint`.
set -euo pipefail
cd "$(dirname "$0")/.."

build=${BUILD:-build}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# A file that is compiled into several programs has several commands, and clang-tidy would read it
# once for each: the first is enough.
first_commands() {
    /usr/bin/python3 -c '
import json, sys
seen = {}
for entry in json.load(sys.stdin):
    seen.setdefault(entry["file"], entry)
json.dump(list(seen.values()), sys.stdout)' <"$build/compile_commands.json" \
        >"$scratch/compile_commands.json"
}

check() {
    case $1 in
    format)
        find src tests bench tools -name '*.[ch]' -print0 | xargs -0 clang-format --dry-run --Werror
        ;;
    tidy)
        first_commands
        local depth=deep
        [[ ${CI:-} != true ]] || depth=shallow
        find src tools -name '*.c' -print0 |
            xargs -0 -P "$(nproc)" -n 1 clang-tidy --quiet -p "$scratch" \
                --extra-arg={-Xclang,-analyzer-config,-Xclang,mode="$depth"} 2>&1 |
            sed '/^[0-9]* warnings\{0,1\} generated\.$/d'
        ;;
    shellcheck)
        find tools tests bench .ci -type f \( -name '*.sh' -o -path '.ci/*' \) -print0 |
            xargs -0 shellcheck
        ;;
    codespell)
        codespell
        ;;
    includes)
        tools/check_includes.py
        ;;
    *)
        echo "no check '$1'"
        return 1
        ;;
    esac
}

checks=("$@")
[[ $# != 0 ]] || checks=(format tidy shellcheck codespell includes)

failed=0
echo "1..${#checks[@]}"
for i in "${!checks[@]}"; do
    # In a subshell, since `if check` would disable -e within it.
    set +e
    (
        set -e
        check "${checks[i]}"
    ) >"$scratch/report" 2>&1
    code=$?
    set -e
    if [[ $code == 0 ]]; then
        echo "ok $((i + 1)) - ${checks[i]}"
    else
        echo "not ok $((i + 1)) - ${checks[i]}"
        head -n 200 "$scratch/report" | sed 's/^/# /'
        failed=1
    fi
done
exit "$failed"
