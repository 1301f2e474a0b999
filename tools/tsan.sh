#!/usr/bin/env bash
# The concurrent parts under the thread sanitizer: unit tests of service and server, then a soak.
#
#   tools/tsan.sh [SECONDS]       of the soak, 60 by default
#
# Builds in build-tsan. A box cannot be made by a sanitized builder (see builder_program() in
# engine.c), so BUILD/glovebox, an ordinary build (default: build), lends its own.
set -euo pipefail
cd "$(dirname "$0")/.."

build=${BUILD:-build}
tests=(service service_session service_execution http mcp mcp_parts keys audit store store_sqlite log)

[[ -e build-tsan/build.ninja ]] ||
    meson setup build-tsan -Dtests=enabled -Db_sanitize=thread -Db_lundef=false
ninja -C build-tsan
export TSAN_OPTIONS=halt_on_error=0:second_deadlock_stack=1
meson test -C build-tsan --no-rebuild --print-errorlogs "${tests[@]}"
GLOVEBOX_PLAIN_BUILDER=$(realpath "$build/glovebox") SOAK_SECONDS=${1:-60} SOAK_CLIENTS=12 \
    /usr/bin/python3 tests/soak/soak.py build-tsan/glovebox
