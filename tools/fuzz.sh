#!/usr/bin/env bash
# Builds the fuzz targets with clang, ASan and UBSan, and runs each for a while from its corpus.
#
#   tools/fuzz.sh [SECONDS [TARGET...]]     60 seconds, every target of tests/fuzz by default
#
# One TAP line a target. What it finds anew stays in build-fuzz/; an input that crashed is kept
# there as crash-TARGET-*, to be committed to tests/fuzz/corpus/TARGET with its fix.
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
    CC=clang meson setup build-fuzz -Dfuzz=true -Dtests=disabled -Db_lundef=false \
        -Db_sanitize=address,undefined >/dev/null
fi
ninja -C build-fuzz "${targets[@]/#/tests/fuzz/fuzz_}" >&2

failed=0
echo "1..${#targets[@]}"
for i in "${!targets[@]}"; do
    name=${targets[i]}
    mkdir -p "build-fuzz/corpus/$name"
    if "build-fuzz/tests/fuzz/fuzz_$name" -max_total_time="$seconds" -timeout=30 \
        -rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix="build-fuzz/crash-$name-" \
        "build-fuzz/corpus/$name" "tests/fuzz/corpus/$name" >"build-fuzz/$name.log" 2>&1; then
        runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "build-fuzz/$name.log")
        echo "ok $((i + 1)) - $name, $runs inputs in $seconds s"
    else
        echo "not ok $((i + 1)) - $name"
        tail -n 40 "build-fuzz/$name.log" | sed 's/^/# /'
        failed=1
    fi
done
exit "$failed"
