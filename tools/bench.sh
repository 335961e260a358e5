#!/usr/bin/env bash
# ./qm bench [NAME...]: admission, bus (carriers and store; Kafka if QM_KAFKA is set or ./qm peers kafka runs it),
# interruptions (15,000 messages of an SQS queue, 1,000 notices in one step), webhook (also pod creations if ./qm peers
# kubernetes runs a cluster), informer (if it runs one), idle (a suite without work: bench/idle/README.md), stack
# [OPTION...] (the same Jobs on kube-scheduler, Kueue and Quartermaster; needs ./qm peers kubernetes kueue), or any
# *_bench binary of the build by the name of its module:
# admission_kueue, cost_engine, ...
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
bin=build/${QM_PRESET:-release}/bin
if [ $# -eq 0 ]; then
  echo "benches: bus idle stack $(cd "$bin" && ls | sed -n 's/_bench$//p' | grep -v '^bus$' | tr '\n' ' ')"
  exit 0
fi
if [ "$1" = stack ]; then
  shift
  exec bench/stack/run.sh "$bin" "$@"
fi
for name in "$@"; do
  if [ -x "bench/$name/run.sh" ]; then
    "bench/$name/run.sh" "$bin"
  elif [ -x "$bin/${name}_bench" ]; then
    "$bin/${name}_bench" --benchmark_repetitions=5 --benchmark_report_aggregates_only=true
  else
    echo "qm bench: no bench \"$name\"; ./qm bench lists them" >&2
    exit 2
  fi
done
