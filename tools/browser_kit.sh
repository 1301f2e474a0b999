#!/usr/bin/env bash
# Installs what the tests of the page need besides Debian's Chromium, in the versions that tests/browser pins: Playwright
# for Python, which drives it, to DIRECTORY/venv, and axe, which looks for faults of accessibility, to DIRECTORY/axe.
#
#   tools/browser_kit.sh [DIRECTORY]    prints nothing when it is installed already
#   tools/browser_kit.sh --where        prints the default directory
#
# See tools/kit.sh for the default directory.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
pins=$root/tests/browser
# shellcheck source=tools/kit.sh
. "$root/tools/kit.sh"

default_dir() { kit_default browser "$pins/requirements.txt" "$pins"/package*.json; }

if [[ ${1:-} == --where ]]; then
    default_dir
    exit
fi
kit_open browser "${1:-$(default_dir)}" "the tests of the page"
install_venv venv "$pins/requirements.txt" 9>&-
install_npm axe "$pins" 9>&-
