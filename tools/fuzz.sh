#!/usr/bin/env bash
# Builds the fuzz targets with clang, ASan and UBSan, and runs each for a while from its corpus.
#
#   tools/fuzz.sh [SECONDS [TARGET...]]     60 seconds, every target of tests/fuzz by default
#   tools/fuzz.sh build                     only builds them
#
# FUZZ_JOBS run at the same time (default: as many as there are processors). Prints one TAP line per
# target. New inputs stay in build-fuzz/; one that crashed is kept there as crash-TARGET-*, to be
# committed to tests/fuzz/corpus/TARGET with its fix.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-60}
shift || true
targets=("$@")
if [[ ${#targets[@]} == 0 ]]; then
    for file in tests/fuzz/fuzz_*.c; do
        name=${file##*/fuzz_}
        targets+=("${name%.c}")
    done
fi

if [[ ! -f build-fuzz/build.ninja ]]; then
    CC=clang meson setup build-fuzz --werror -Dfuzz=true -Dtests=disabled -Db_lundef=false \
        -Db_sanitize=address,undefined >/dev/null
fi
ninja -C build-fuzz "${targets[@]/#/tests/fuzz/fuzz_}" >&2
[[ $seconds != build ]] || exit 0

# fuzz NAME : its TAP line, without the number, in build-fuzz/NAME.tap
fuzz() {
    local name=$1 log=build-fuzz/$1.log runs
    mkdir -p "build-fuzz/corpus/$name"
    if "build-fuzz/tests/fuzz/fuzz_$name" -max_total_time="$seconds" -timeout=30 \
        -rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix="build-fuzz/crash-$name-" \
        "build-fuzz/corpus/$name" "tests/fuzz/corpus/$name" >"$log" 2>&1; then
        runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
        echo "ok - $name, $runs inputs in $seconds s"
    else
        echo "not ok - $name"
        tail -n 40 "$log" | sed 's/^/# /'
    fi >"build-fuzz/$name.tap"
}
export -f fuzz
export seconds

rm -f build-fuzz/*.tap
printf '%s\n' "${targets[@]}" | xargs -P "${FUZZ_JOBS:-$(nproc)}" -I{} bash -c 'set -euo pipefail; fuzz {}'
echo "1..${#targets[@]}"
taps=("${targets[@]/#/build-fuzz/}")
cat "${taps[@]/%/.tap}"
! grep -q '^not ok' "${taps[@]/%/.tap}"
