#!/bin/bash
# The cost of admission's decisions on this host: the rules in cycles and continuously, the engine with its rows, a
# million pending workloads, admissions through gRPC, a private PostgreSQL and a bus on it, a restart with a million,
# and victims among many.
#
#   bench/admission/run.sh BIN > results.jsonl      BIN = the folder of admission_bench, such as build/release/bin
set -euo pipefail
bin=${1:?the folder of admission_bench}
root=$(cd "$(dirname "$0")/../.." && pwd -P)
load() { cut -d' ' -f1-3 /proc/loadavg; }
echo "{\"machine\": \"$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1)\", \"cores\": $(nproc)," \
  "\"commit\": \"$(git -C "$root" describe --always --dirty 2>/dev/null || echo unknown)\", \"load before\": \"$(load)\"}"
for decider in cycles continuous engine; do "$bin/admission_bench" shapes $decider; done
"$bin/admission_bench" million
. "$root/bench/common/postgres.sh"
for by in grpc jobs; do "$bin/admission_bench" durable "$conninfo" $by; done
"$bin/admission_bench" restart "$conninfo"
"$bin/admission_kueue_bench" --benchmark_repetitions=5 --benchmark_report_aggregates_only=true
echo "{\"load after\": \"$(load)\"}"
