#!/bin/bash
# The same Jobs on the same nodes, bound once by admission and placement and once by the stock kube-scheduler, one
# after the other on one real control plane with kwok.
#
#   tools/compare-scheduler.sh [NODES] [REPORTS] [PODS]   NODES nodes of 8 GPUs (default 500); reports as JSON in
#   REPORTS
#                                                         (default build/compare); with PODS the Jobs are the main
#                                                         job's, with at least so many pods, which end; else they fill
#                                                         three quarters of the nodes and never end
#
# kube-scheduler gets --kube-api-qps=5000 --kube-api-burst=10000, and the host to itself: our services are stopped
# before. It runs twice: with its defaults, which spread pods over the nodes, and configured to pack by GPUs
# (MostAllocated), as a GPU cluster would use it.
#
# Settings: QM_DEMO (the program, default build/release/bin/qm-demo), QM_CLUSTER_PORT (first of six ports, default
# 27443).
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."

nodes=${1:-500}
reports=${2:-build/compare}
pods=${3:+--pods $3}
demo=${QM_DEMO:-build/release/bin/qm-demo}
mkdir -p "$reports"
reports=$(cd "$reports" && pwd -P)

echo "commit $(git rev-parse --short HEAD), $(nproc) cores, load before:$(uptime | sed 's/.*load average//')"

"$demo" --kube peer --compare --nodes "$nodes" $pods --spot-nodes 0 --dir "$reports/spread" --json "$reports/spread.json"

cat >"$reports/packing.yaml" <<YAML
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: "$reports/packed/kube/kubeconfig", qps: 5000, burst: 10000}
leaderElection: {leaderElect: true, leaseDuration: 60s, renewDeadline: 40s}
profiles:
- schedulerName: default-scheduler
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: nvidia.com/gpu, weight: 1}]}}
YAML
QM_KUBE_ARGS_SCHEDULER="--config=$reports/packing.yaml" \
  "$demo" --kube peer --compare --nodes "$nodes" $pods --spot-nodes 0 --dir "$reports/packed" --json "$reports/packed.json"

echo "load after:$(uptime | sed 's/.*load average//')"
