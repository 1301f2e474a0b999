#!/usr/bin/env bash
# Runs the limit and abuse suites in the virtual machine (tools/vm.sh) as each kind of user, in one
# boot. The last line is `N passed, N failed`; fails unless every test passed.
#
#   tools/vm/suites.sh [--short] [--counts FILE] [root|user|subids|service|login]...
#
# root and user by default. --short takes the tests of short.txt, a few minutes in all. --counts
# also writes 'PASSED FAILED SKIPPED' to a file. Nothing else runs in the machine, so everything a
# test leaves behind is a leak (GB_STRICT_LEAKS). All timeouts that only catch hangs are longer
# (GB_SLOW): an emulator is slow, and even slower with only a part of a core.
set -euo pipefail
cd "$(dirname "$0")/../.."

tests=(tests/system/test_limits.py tests/abuse)
limit=7200
counts=
while [[ ${1:-} == --* ]]; do
    case $1 in
    --short)
        mapfile -t tests < <(grep -v '^#' tools/vm/short.txt)
        limit=3600
        ;;
    --counts)
        counts=$2
        shift
        ;;
    *)
        echo "vm: no option '$1'" >&2
        exit 2
        ;;
    esac
    shift
done
[[ $# != 0 ]] || set -- root user

export GB_STRICT_LEAKS=1 GB_SLOW=5
log=$(mktemp)
trap 'rm -f "$log"' EXIT

as=$(IFS=,; echo "$*")
printf '\n== limit and abuse suites on the cloud kernel as %s\n' "${as//,/, }"
status=0
tools/vm.sh --as "$as" --limit $(($# * limit)) /usr/bin/python3 -m pytest -q -rs --tb=short \
    -p no:cacheprovider "${tests[@]}" | tee "$log" || status=$?
# 1: some tests failed, which is counted below. Anything else is a failure of its own, and so is a
# user whose tests did not get as far as counting.
broken=$(($# - $(grep -c -E ' in [0-9.]+s( |$)' "$log" || true)))
if [[ $status -gt 1 ]]; then
    echo "FAILED: exit $status"
    [[ $broken != 0 ]] || broken=1
fi

# pytest ends with a line such as "2 failed, 140 passed, 1 skipped in 600.12s (0:10:00)".
read -r passed failed skipped < <(awk -v failed="$broken" '
    / in [0-9.]+s( |$)/ {
        for (i = 2; i <= NF; i++) {
            if ($i ~ /^passed/) passed += $(i - 1)
            if ($i ~ /^(failed|error)/) failed += $(i - 1)
            if ($i ~ /^skipped/) skipped += $(i - 1)
        }
    }
    END { print passed + 0, failed + 0, skipped + 0 }' "$log")
[[ -z $counts ]] || echo "$passed $failed $skipped" >"$counts"
printf '\n%d passed, %d failed' "$passed" "$failed"
[[ $skipped == 0 ]] || printf ', %d skipped' "$skipped"
echo
[[ $failed == 0 && $passed != 0 ]]
