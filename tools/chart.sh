#!/usr/bin/env bash
# Lints the Helm chart with each of its sets of values and packages it. Called by ./qm chart.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
mkdir -p build
tools/peers/helm.sh get
eval "$(tools/peers/helm.sh env)"
chart=deploy/helm/quartermaster
kube=$(sed -n 's/^kubeVersion: ">=\([0-9.]*\).*/\1/p' "$chart/Chart.yaml")
for values in "$chart"/ci/*.yaml; do
  "$QM_HELM" lint --strict --quiet --kube-version "$kube" "$chart" -f "$values" 2>build/chart.log || { cat build/chart.log >&2; exit 1; }
  "$QM_HELM" template quartermaster "$chart" -n quartermaster-system --kube-version "$kube" -f "$values" 2>>build/chart.log |
    awk -v name="$(basename "$values" .yaml)" '/^kind: /{ n++ } END { printf "%-16s %d objects\n", name, n }'
done
"$QM_HELM" package "$chart" -d build 2>>build/chart.log
