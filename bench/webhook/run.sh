#!/bin/bash
# The cost of the webhook on this host; includes pod creations if tools/peers/kubernetes.sh has a cluster running.
#
#   bench/webhook/run.sh BIN > results.jsonl      BIN = the folder of webhook_bench, such as build/release/bin
set -euo pipefail
bin=${1:?the folder of webhook_bench}
root=$(cd "$(dirname "$0")/../.." && pwd -P)
echo "{\"load before\": \"$(cut -d' ' -f1-3 /proc/loadavg)\", \"cores\": $(nproc)}"
"$bin/webhook_bench" decide
"$bin/webhook_bench" decide "$root/deploy/policies/webhook-policy.yaml"
"$bin/webhook_bench" review 200
"$bin/webhook_bench" review 2000
"$bin/webhook_bench" saturated 4
if peer=$("$root/tools/peers/kubernetes.sh" env 2>/dev/null); then
  eval "$peer"
  "$bin/webhook_bench" pods 1 6
  "$bin/webhook_bench" floor 10
fi
echo "{\"load after\": \"$(cut -d' ' -f1-3 /proc/loadavg)\", \"cores\": $(nproc)}"
