#!/bin/bash
# What an idle suite costs: commits, log bytes, API requests and CPU per second of five services, agents and PostgreSQL.
#
#   bench/idle/run.sh BIN [--nodes N] [--replicas N] [--settle S] [--seconds S] [--json FILE]
#
# BIN = the folder of qm-demo, such as build/release/bin. README.md describes the table.
set -euo pipefail
bin=${1:?the folder of qm-demo}
shift
root=$(cd "$(dirname "$0")/../.." && pwd -P)
# A control plane that tools/peers/kubernetes.sh runs is used; otherwise the suite has the simulated API server.
if peer=$("$root/tools/peers/kubernetes.sh" env 2>/dev/null); then eval "$peer"; fi
exec python3 "$root/bench/idle/idle.py" "$bin" "$@"
