#!/usr/bin/env bash
# All checks, for .ci/run. There are two cores, so CI is fast only if none of them is idle and
# nothing is done twice. Three lanes side by side: in front the suites; behind them steps that mostly
# need CPU; and fuzzing, at a lower priority. The steps of the second and third lane write TAP logs,
# shown when the lane is done. A step counts as one check; the suites count test by test. The last
# lines before the sum list what took most CPU time.
set -euo pipefail
cd "$(dirname "$0")/.."

logs=build-ci
rm -rf "$logs"
mkdir -p "$logs"

say() { printf '\n== %s (%d s)\n' "$*" "$SECONDS"; }

# timed NAME COMMAND... : records the time for costs(); its status is the command's
timed() {
    local name=$1 status=0 TIMEFORMAT='%R %U %S'
    shift
    { time "$@" 2>&3 3>&-; } 3>&2 2>"$logs/time.$BASHPID" || status=$?
    awk -v name="$name" '{ printf "%.1f\t%.1f\t%s\n", $1, $2 + $3, name }' "$logs/time.$BASHPID" \
        >>"$logs/costs"
    rm "$logs/time.$BASHPID"
    return "$status"
}

# step NAME COMMAND... : one check, reported as TAP
step() {
    local name=$1
    shift
    if timed "$name" "$@" >"$logs/$name.log" 2>&1; then
        echo "ok - $name"
    else
        echo "not ok - $name"
        tail -n 60 "$logs/$name.log" | sed 's/^/# /'
    fi
}

# compile DIR MESON-ARGUMENT... [-- TARGET...] : a fresh build
compile() {
    local dir=$1 options=()
    shift
    while [[ $# != 0 && $1 != -- ]]; do
        options+=("$1")
        shift
    done
    rm -rf "$dir"
    meson setup "$dir" -Dtests=enabled "${options[@]}"
    ninja -C "$dir" "${@:2}"
}

# counted NAME COMMAND... : a suite whose tests are counted one by one, in NAME.counts. What it prints
# is shown as comments.
counted() {
    local name=$1
    shift
    "$@" --counts "$logs/$name.counts" >"$logs/$name.log" 2>&1 || true
    sed 's/^/# /' "$logs/$name.log"
}

# The engine's children exit with _exit and leave their memory to the kernel; a tenant cannot be
# traced, which the leak check would need. Leaks are checked in the unit tests.
asan_unit() {
    ASAN_OPTIONS=detect_leaks=1:abort_on_error=1 counted asan-unit \
        tests/run.py --build build-asan --costs "$logs/costs" unit
}

behind() {
    step fuzz-build tools/fuzz.sh build
    touch "$logs/fuzz.done"
    # Without --werror: gcc's warnings are guesses once the sanitizers have rewritten the code. A
    # sanitizer's report needs the lines of functions, not every variable, and -O2 takes twice as long.
    step asan-build compile build-asan -Db_sanitize=address,undefined -Db_lundef=false \
        -Doptimization=1 -Dc_args=-g1
    touch "$logs/asan.done"
    asan_unit
    # This build is not run, and unlike gcc's, clang's warnings do not depend on optimisation.
    CC=clang step clang-werror compile build-clang --werror -Doptimization=0 -Ddebug=false -- \
        all bench_engine bench_service
    step tsan tools/tsan.sh 30
    step web tools/web.sh --check
    step aarch64 tools/cross.sh -Doptimization=1 -Ddebug=false # this compiler crashes at 0
    GLOVEBOX=build/glovebox timed vm counted vm tools/vm/suites.sh --short
    BUILD=build-clang timed lint tools/lint.sh || true
}

# fuzzing : a minute of each target, one after the other
fuzzing() {
    local i
    for ((i = 0; i < 900; i++)); do
        [[ ! -e $logs/fuzz.done ]] || break
        sleep 1
    done
    FUZZ_JOBS=1 timed fuzz tools/fuzz.sh 60 || true
}

# packages : those that the first build does not need; apt takes about as long as that build
packages() { tools/deps.sh; }

# kit : installs the programs for the proofs of MCP, of the page and of models, mostly downloads; the suites wait for it
kit() {
    timed mcp-kit tools/mcp_kit.sh ${GB_MCP_KIT:+"$GB_MCP_KIT"}
    timed browser-kit tools/browser_kit.sh ${GB_BROWSER_KIT:+"$GB_BROWSER_KIT"} || true # its suite says so
    timed model-kit tools/model_kit.sh ${GB_MODEL_KIT:+"$GB_MODEL_KIT"} || true # a test says so
}

asan_files=test_robust.py,test_bad_input.py,test_key.py,test_audit.py
asan_files+=,test_serve_api.py,test_serve_files.py,test_serve_life.py,test_serve_sessions.py
asan_files+=,test_network.py,test_serve_network.py
asan_files+=,test_mcp.py,test_mcp_bad_input.py,test_mark_models.py
asan_files+=,test_connector_hostile.py,test_bigquery.py

# asan_system WHO : system tests in the sanitized build, once it exists
asan_system() {
    while [[ ! -e $logs/asan.done ]] && kill -0 "$behind_pid" 2>/dev/null; do
        sleep 1
    done
    ASAN_OPTIONS=detect_leaks=0:abort_on_error=1 \
        tests/run.py --build build-asan --counts "$logs/asan-system.counts" --costs "$logs/costs" \
        --as "$1" --only "$asan_files" system || true
}

# lane NAME [NICE] : starts the function of that name in its own session, so that all of it can be
# killed at once; its id is then in lane_pid. Where the kernel groups processes by session, as it does
# by default, only the nice value of that group counts. An ordinary user may set that only every
# 100 ms; a lane that is refused keeps the default.
lane() {
    setsid nice -n "${2:-0}" bash -c "
        set -euo pipefail
        { echo ${2:-0} >/proc/self/autogroup; } 2>/dev/null || true
        $1" >"$logs/$1.tap" 2>"$logs/$1.err" &
    lane_pid=$!
    lanes+=("$lane_pid")
}

# end_of_lane NAME PID : waits for it and shows its TAP log
end_of_lane() {
    local finished=1
    wait "$2" || finished=0
    cat "$logs/$1.tap"
    if [[ $finished == 0 ]]; then
        echo "not ok - the lane '$1' was aborted" | tee -a "$logs/$1.tap"
        tail -n 20 "$logs/$1.err"
    fi
}

# add_up : the counts of the suites and the TAP lines of the steps
add_up() {
    local suite
    for suite in test asan-unit asan-system vm; do
        # A suite that did not get as far as counting has failed.
        cat "$logs/$suite.counts" 2>/dev/null || echo "0 1 0"
    done
    awk '/^ok/ { ok++ } /^not ok/ { bad++ } END { print ok + 0, bad + 0, 0 }' \
        "$logs/packages.tap" "$logs/front.tap" "$logs/behind.tap" "$logs/fuzzing.tap"
}

# costs : the ten steps and test files that took most CPU time
costs() {
    awk -F '\t' '{ cpu += $2 } END { printf "all of them: %.0f s CPU\n", cpu }' "$logs/costs"
    sort -t $'\t' -k 2,2 -rn "$logs/costs" |
        awk -F '\t' 'NR <= 10 { printf "%8.1f s CPU %8.1f s  %s\n", $2, $1, $3 }'
}

# Lanes that are still running when this script exits are killed.
lanes=()
end_lanes() {
    local pid
    for pid in "${lanes[@]}"; do
        kill -- "-$pid" 2>/dev/null || true
    done
}
trap end_lanes EXIT
export -f timed step counted compile asan_unit behind fuzzing packages kit
export logs UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1

tools/deps.sh build test
lane packages
packages_pid=$lane_pid
lane kit

say "build, with gcc"
step gcc-werror compile build --werror -- all bench_engine bench_service | tee "$logs/front.tap"
end_of_lane packages "$packages_pid"

say "checks and fuzzing start in the background"
lane behind
behind_pid=$lane_pid
lane fuzzing 5
fuzzing_pid=$lane_pid

say "make test"
make test COUNTS="$logs/test.counts" COSTS="$logs/costs" | tee "$logs/suites.log" || true

say "system tests under ASan and UBSan, beside half a minute of mixed load"
step soak make soak SOAK_SECONDS=30 >>"$logs/front.tap" &
soak_pid=$!
who=self
[[ $(id -u) != 0 ]] || who=root
asan_system "$who" | tee -a "$logs/suites.log"
wait "$soak_pid"
sed -n '/soak$/,$p' "$logs/front.tap"

say "waiting for the checks in the background"
end_of_lane behind "$behind_pid"
end_of_lane fuzzing "$fuzzing_pid"

say "the ten that took most CPU time"
costs

say "tests that failed at first and then passed three times in a row"
grep -h '^[^ ].*: UNSTEADY ' "$logs"/{suites,asan-unit}.log || echo "none"

say "sum"
add_up | awk '
    { passed += $1; failed += $2; skipped += $3 }
    END {
        printf "%d passed, %d failed%s\n", passed, failed,
               skipped ? sprintf(", %d skipped", skipped) : ""
        exit failed > 0 || passed == 0
    }'
