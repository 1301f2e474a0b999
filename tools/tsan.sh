#!/usr/bin/env bash
# Runs the concurrent parts under the thread sanitizer: unit tests of service and server, then a soak.
#
#   tools/tsan.sh [SECONDS]       of the soak, 30 by default
#   tools/tsan.sh build           only builds what these run
#
# Builds in build-tsan; waits if another process is building there. A sanitized builder cannot
# create boxes (see builder_program() in engine.c), so the builder of an ordinary build,
# BUILD/glovebox (default: build), is used.
set -euo pipefail
cd "$(dirname "$0")/.."

build=${BUILD:-build}
tests=(service service_session service_execution http mcp mcp_parts keys audit store store_sqlite log agent broker)

mkdir -p build-tsan
(
    flock 9
    # A report names functions and lines, for which -g1 is enough.
    [[ -e build-tsan/build.ninja ]] ||
        meson setup build-tsan -Dtests=enabled -Db_sanitize=thread -Db_lundef=false \
            -Doptimization=1 -Dc_args=-g1
    ninja -C build-tsan glovebox "${tests[@]/#/tests/unit/test_}"
) 9>build-tsan/lock
[[ ${1:-} != build ]] || exit 0

export TSAN_OPTIONS=halt_on_error=0:second_deadlock_stack=1
# store is asked of both backends, and here of the one that needs no server.
meson test -C build-tsan --no-rebuild --print-errorlogs "${tests[@]/%store/store_on_sqlite}"
GLOVEBOX_PLAIN_BUILDER=$(realpath "$build/glovebox") SOAK_SECONDS=${1:-30} SOAK_CLIENTS=12 \
    /usr/bin/python3 tests/soak/soak.py build-tsan/glovebox
