#!/usr/bin/env bash
# All checks, for .ci/run. Two lanes, since two cores are what there is: in front the suites, which
# watch the clock, one after the other; behind them, at low priority, what only burns CPU. Each step
# of the second lane writes a TAP log, shown when the lane is done. A step counts as one check; the
# suites count test by test.
set -euo pipefail
cd "$(dirname "$0")/.."

logs=build-ci
rm -rf "$logs"
mkdir -p "$logs"

say() { printf '\n== %s (%d s)\n' "$*" "$SECONDS"; }

# step NAME COMMAND... : one check in TAP words
step() {
    local name=$1
    shift
    if "$@" >"$logs/$name.log" 2>&1; then
        echo "ok - $name"
    else
        echo "not ok - $name"
        tail -n 60 "$logs/$name.log" | sed 's/^/# /'
    fi
}

# compile DIR MESON-ARGUMENT... : a fresh build
compile() {
    local dir=$1
    shift
    rm -rf "$dir"
    meson setup "$dir" -Dtests=enabled "$@"
    ninja -C "$dir" all bench_engine bench_service
}

# machine BINARY : a short form of the suites on the users' kernel, counted test by test
machine() {
    GLOVEBOX=$1 tools/vm/suites.sh --short --counts "$logs/vm.counts" >"$logs/vm.log" 2>&1 || true
    sed 's/^/# /' "$logs/vm.log"
}

behind() {
    # Without --werror: gcc's warnings are guesses once the sanitizers have rewritten the code.
    step asan-build compile build-asan -Db_sanitize=address,undefined -Db_lundef=false
    touch "$logs/asan.done"
    CC=clang step clang-werror compile build-clang --werror
    step aarch64 tools/cross.sh
    machine build/glovebox
    BUILD=build-clang tools/lint.sh || true
    tools/fuzz.sh 60 || true
}

asan_files=test_robust.py,test_bad_input.py,test_key.py,test_audit.py
asan_files+=,test_serve_api.py,test_serve_files.py,test_serve_life.py,test_serve_sessions.py
asan_files+=,test_network.py,test_serve_network.py
asan_files+=,test_mcp.py,test_mcp_bad_input.py

# asan_suites : unit and system tests in the sanitized build, once it is there
asan_suites() {
    while [[ ! -e $logs/asan.done ]] && kill -0 "$behind_pid" 2>/dev/null; do
        sleep 1
    done
    # The engine's children end with _exit and leave their memory to the kernel; a tenant cannot be
    # traced, which is what the leak check would do. Leaks are looked for in the unit tests.
    export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
    ASAN_OPTIONS=detect_leaks=1:abort_on_error=1 \
        tests/run.py --build build-asan --counts "$logs/asan-unit.counts" unit || true
    ASAN_OPTIONS=detect_leaks=0:abort_on_error=1 \
        tests/run.py --build build-asan --counts "$logs/asan-system.counts" \
        --as "$1" --only "$asan_files" system || true
}

# add_up : the counts of the suites and the TAP lines of the steps
add_up() {
    local suite
    for suite in test asan-unit asan-system vm; do
        # A suite that did not come as far as counting has failed.
        cat "$logs/$suite.counts" 2>/dev/null || echo "0 1 0"
    done
    awk '/^ok/ { ok++ } /^not ok/ { bad++ } END { print ok + 0, bad + 0, 0 }' \
        "$logs/build.tap" "$logs/behind.tap"
}

tools/deps.sh

say "build, with gcc"
step gcc-werror compile build --werror | tee "$logs/build.tap"

say "checks and fuzzing start in the background"
# A session of its own, so that what is left of it can be ended as one.
export -f step compile machine behind
export logs
setsid nice -n 10 bash -c 'set -euo pipefail; behind' >"$logs/behind.tap" 2>"$logs/behind.err" &
behind_pid=$!
trap 'kill -- "-$behind_pid" 2>/dev/null || true' EXIT

say "make test"
make test COUNTS="$logs/test.counts" || true

say "suites under ASan and UBSan"
who=self
[[ $(id -u) != 0 ]] || who=root
asan_suites "$who"

say "a minute of mixed load, and another under the thread sanitizer"
step soak make soak SOAK_SECONDS=60 | tee -a "$logs/build.tap" &
soak_pid=$!
step tsan tools/tsan.sh 60 | tee -a "$logs/build.tap"
wait "$soak_pid"

say "waiting for the checks in the background"
finished=1
wait "$behind_pid" || finished=0
cat "$logs/behind.tap"
if [[ $finished == 0 ]]; then
    echo "not ok - the background lane broke off" | tee -a "$logs/behind.tap"
    tail -n 20 "$logs/behind.err"
fi

say "sum"
add_up | awk '
    { passed += $1; failed += $2; skipped += $3 }
    END {
        printf "%d passed, %d failed%s\n", passed, failed,
               skipped ? sprintf(", %d skipped", skipped) : ""
        exit failed > 0 || passed == 0
    }'
