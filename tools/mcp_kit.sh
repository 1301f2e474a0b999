#!/usr/bin/env bash
# Installs the programs for the MCP proofs: Node 22, the official conformance suite, the
# official clients and mcpo, in the versions that tests/mcp and tools/node pin.
#
#   tools/mcp_kit.sh [DIRECTORY]    prints nothing when all of it is installed already
#   tools/mcp_kit.sh --where        prints the default directory
#
# See tools/kit.sh for the default directory. Downloads take a minute.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
pins=$root/tests/mcp
# shellcheck source=tools/kit.sh
. "$root/tools/kit.sh"

default_dir() { kit_default mcp "$pins"/package*.json "$pins"/requirements-*.txt; }

install_node() {
    local node
    install_npm node "$pins"
    node=$("$root/tools/node.sh")
    ln -sfn "$node" "$dir/node/node"
}

if [[ ${1:-} == --where ]]; then
    default_dir
    exit
fi
kit_open mcp "${1:-$(default_dir)}" "the MCP proofs"
install_node 9>&- &
jobs=($!)
install_venv v1 "$pins/requirements-v1.txt" 9>&- &
jobs+=($!)
install_venv v2 "$pins/requirements-v2.txt" 9>&- &
jobs+=($!)
failed=0
for job in "${jobs[@]}"; do
    wait "$job" || failed=1
done
exit "$failed"
