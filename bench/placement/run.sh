#!/bin/bash
# The cost of placement on this host: single pods in nearly full fleets of 1,000 to 100,000 nodes, and gangs over
# racks and blocks in fleets of 5,000 and 30,000; preemption for a job of 2,000 GPUs, and defragmentation.
#
#   bench/placement/run.sh BIN > results.jsonl      BIN = the folder of placement_bench, such as build/release/bin
set -euo pipefail
bin=${1:?the folder of placement_bench}
root=$(cd "$(dirname "$0")/../.." && pwd -P)
load() { cut -d' ' -f1-3 /proc/loadavg; }
echo "{\"machine\": \"$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1)\", \"cores\": $(nproc)," \
  "\"commit\": \"$(git -C "$root" describe --always --dirty 2>/dev/null || echo unknown)\", \"load before\": \"$(load)\"}"
for policy in quartermaster fgd bestfit; do
  for nodes in 1000 1213 3000 10000 30000 100000; do "$bin/placement_bench" singles "$policy" "$nodes"; done
done
for nodes in 5000 30000; do "$bin/placement_bench" gangs quartermaster "$nodes"; done
for nodes in 500 5000; do "$bin/placement_bench" preempt "$nodes"; done
"$bin/placement_bench" consolidate 500
echo "{\"load after\": \"$(load)\"}"
