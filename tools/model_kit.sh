#!/usr/bin/env bash
# Installs the official Python packages of OpenAI, Anthropic and Google, in the versions that
# tests/system/model_requirements.txt pins, for the proof that our stand-ins for their servers are
# faithful: to DIRECTORY/venv. An emulator of BigQuery goes to DIRECTORY/emulator, as pinned by
# tests/system/emulator_requirements.txt.
#
#   tools/model_kit.sh [DIRECTORY]    prints nothing when it is installed already
#   tools/model_kit.sh --where        prints the default directory
#
# See tools/kit.sh for the default directory.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
pinned=$root/tests/system/model_requirements.txt
emulator=$root/tests/system/emulator_requirements.txt
# shellcheck source=tools/kit.sh
. "$root/tools/kit.sh"

default_dir() { kit_default model "$pinned" "$emulator"; }

install_emulator() {
    local stamp
    # It needs Python 3.11; with an older one its test is skipped.
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || return 0
    ! is_there emulator "$emulator" || return 0
    quietly venv-emulator "$python" -m venv --without-pip "$dir/emulator"
    quietly pip-emulator "$dir/venv/bin/python" -m pip --python "$dir/emulator/bin/python" install \
        --disable-pip-version-check --no-input --no-deps --no-compile -r "$emulator"
    echo "$stamp" >"$dir/emulator/stamp"
}

if [[ ${1:-} == --where ]]; then
    default_dir
    exit
fi
kit_open model "${1:-$(default_dir)}" "the model proofs"
install_venv venv "$pinned" 9>&-
install_emulator 9>&-
