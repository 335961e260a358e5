#!/bin/bash
# Packing of pending pods onto new instances: growth with pods and instance types, and the oracle of Cluster Autoscaler.
#
#   bench/autoscaler/run.sh BIN [BENCHMARK OPTIONS]      BIN = the folder of autoscaler_bench, such as build/release/bin
set -euo pipefail
bin=${1:?the folder of autoscaler_bench}
"$bin/autoscaler_bench" --benchmark_repetitions=3 --benchmark_report_aggregates_only=true "${@:2}"
