#!/bin/bash
# The time until an informer knows all pods of a real API server, which tools/peers/kubernetes.sh runs.
#
#   bench/informer/run.sh BIN [PODS] > results.jsonl      BIN = the folder of informer_bench, such as build/release/bin
set -euo pipefail
bin=${1:?the folder of informer_bench}
root=$(cd "$(dirname "$0")/../.." && pwd -P)
peer=$("$root/tools/peers/kubernetes.sh" env) || { echo "no cluster: ./qm peers kubernetes" >&2; exit 2; }
eval "$peer"
echo "{\"load before\": \"$(cut -d' ' -f1-3 /proc/loadavg)\", \"cores\": $(nproc)}"
"$bin/informer_bench" "${@:2}"
echo "{\"load after\": \"$(cut -d' ' -f1-3 /proc/loadavg)\", \"cores\": $(nproc)}"
