#!/bin/bash
# Measures the carriers on this host: a private PostgreSQL that syncs to disk as in production, and Kafka if
# tools/peers/kafka.sh has a broker running.
#
#   bench/bus/run.sh BIN > results.jsonl      BIN = the folder of bus_bench, such as build/release/bin
#   bench/bus/run.sh BIN pipeline effect      only these verbs of it
set -euo pipefail
bin=${1:?the folder of bus_bench}
shift
[ $# -gt 0 ] || set -- store throughput latency pipeline effect
wanted=" $* "
bench() { case $wanted in *" $1 "*) "$bin/bus_bench" "$@" ;; esac; }
echo "{\"load before\": \"$(cut -d' ' -f1-3 /proc/loadavg)\", \"cores\": $(nproc)}"
root=$(cd "$(dirname "$0")/../.." && pwd -P)
. "$root/bench/common/postgres.sh"

for batch in 1 16 128 512; do bench store "$conninfo" "$batch"; done
settings=("postgres:$conninfo")
if peer=$("$root/tools/peers/kafka.sh" env 2>/dev/null); then
  eval "$peer"
  settings+=("kafka:$QM_KAFKA")
fi
for setting in "${settings[@]}"; do
  for batch in 1 16 128 512; do bench throughput "$setting" "$batch"; done
  bench latency "$setting" 1000
  bench pipeline "$setting" "$conninfo"
  bench effect "$setting" 1000 "$conninfo"
done
echo "{\"load after\": \"$(cut -d' ' -f1-3 /proc/loadavg)\", \"cores\": $(nproc)}"
