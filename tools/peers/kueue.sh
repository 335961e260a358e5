#!/bin/bash
# Kueue as a process outside of the cluster, on the control plane of tools/peers/kubernetes.sh.
#
#   tools/peers/kueue.sh get      build it with Go into build/peers/kueue (5 min, once)
#   tools/peers/kueue.sh start    create its definitions and webhooks in the cluster, and start it (get first if needed)
#   tools/peers/kueue.sh stop     stop it, and remove its webhooks
#   tools/peers/kueue.sh env      print "export QM_KUEUE=1" for the tests while it runs
#
# Needs a running control plane: tools/peers/kubernetes.sh start. Its configuration is as shipped, with the integration
# batch/job alone. The metrics server reads its certificate from a fixed path, /etc/kueue/metrics/certs.
#
# Settings: QM_KUEUE_QPS and QM_KUEUE_BURST, its limit of requests to the API server (default 50 and 100, as shipped;
# benchmarks set 5000 and 10000); QM_KUEUE_LEASE, how long its lease is valid in seconds (default 15, as shipped; it is
# renewed within two thirds of that, or Kueue ends itself). On a second control plane (QM_KUBE_RUN, QM_KUBE_PORT) also
# QM_KUEUE_RUN (run folder, default build/peers/kueue/run) and QM_KUEUE_PORT (first of three ports, default 27443: webhooks,
# health, metrics).
set -euo pipefail

peer=kueue
version=0.17.0
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/process.sh"
port=${QM_KUEUE_PORT:-27443}
qps=${QM_KUEUE_QPS:-50}
burst=${QM_KUEUE_BURST:-100}
lease_seconds=${QM_KUEUE_LEASE:-15}
lease=c1f6bfd2.kueue.x-k8s.io

get() {
  have kueue && return 0
  need_go
  mkdir -p "$home"
  GOBIN=$home go_build install "sigs.k8s.io/kueue/cmd/kueue@v$version"
  echo "$version" >"$home/version"
}

# Definitions with their conversion, and the webhooks of Kueue's own kinds and of Jobs, by URL.
objects() {
  local crds
  crds=$(module "sigs.k8s.io/kueue@v$version")/config/components
  # Kueue looks for ProvisioningRequests when it starts.
  prepare kueue-system "$crds/crd/bases" "$root/deploy/crds/ecosystem/capacity.yaml"
  kubectl create --dry-run=client -o json -f "$crds/webhook/manifests.yaml" >"$run/webhooks.json"
  python3 - "$run" "$port" "$(base64 -w0 "$run/certs/ca.crt")" <<'P' >"$run/objects.json"
import json, sys
run, port, ca = sys.argv[1:]
text, at, found = open(run + "/webhooks.json").read(), 0, []
while text[at:].strip():
    one, end = json.JSONDecoder().raw_decode(text[at:].lstrip())
    at = len(text) - len(text[at:].lstrip()) + end
    found += one.get("items", [one])
def ours(hook):
    return all(group == "kueue.x-k8s.io" or (group == "batch" and rule["resources"] == ["jobs"])
               for rule in hook["rules"] for group in rule["apiGroups"])
for one in found:
    one["webhooks"] = [hook for hook in one["webhooks"] if ours(hook)]
    one["metadata"] = {"name": "kueue-" + one["metadata"]["name"]}
    for hook in one["webhooks"]:
        path = hook["clientConfig"]["service"]["path"]
        hook["clientConfig"] = {"url": f"https://127.0.0.1:{port}{path}", "caBundle": ca}
print(json.dumps({"apiVersion": "v1", "kind": "List", "items": found}))
P
  local kind conversion
  conversion=$(printf '{"spec":{"conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"url":"https://127.0.0.1:%s/convert","caBundle":"%s"}}}}}' \
    "$port" "$(base64 -w0 "$run/certs/ca.crt")")
  for kind in localqueues clusterqueues cohorts workloads multikueueclusters; do
    kubectl patch crd "$kind.kueue.x-k8s.io" --type merge -p "$conversion" >/dev/null
  done
}

configuration() {
  cat >"$run/config.yaml" <<YAML
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
health: {healthProbeBindAddress: "127.0.0.1:$((port + 1))"}
metrics: {bindAddress: "127.0.0.1:$((port + 2))"}
webhook: {host: 127.0.0.1, port: $port, certDir: $run/certs}
leaderElection: {leaderElect: true, resourceName: $lease, resourceNamespace: kueue-system, leaseDuration: ${lease_seconds}s, renewDeadline: $((lease_seconds * 2 / 3))s}
clientConnection: {qps: $qps, burst: $burst}
internalCertManagement: {enable: false}
integrations: {frameworks: ["batch/job"]}
featureGates: {VisibilityOnDemand: false}
YAML
}

start() {
  if ! attach kueue; then
    get
    certificates IP:127.0.0.1
    mkdir -p /etc/kueue/metrics/certs
    cp "$run/certs/tls.crt" "$run/certs/tls.key" /etc/kueue/metrics/certs/
    objects
    configuration
    # Without the lease of an earlier process, which it would let expire first.
    kubectl delete lease -n kueue-system "$lease" --ignore-not-found >/dev/null
    spawn kueue "$port" --config "$run/config.yaml" --zap-log-level=2
    await kueue readiness curl -fsS -m 2 "http://127.0.0.1:$((port + 1))/readyz"
    await kueue lease kubectl get lease -n kueue-system "$lease"
    kubectl apply -f "$run/objects.json" >/dev/null
  fi
  say "Kueue $version is serving, $(sed -n 's/^clientConnection: {\(.*\)}$/\1/p' "$run/config.yaml")"
}

# The webhooks first: without Kueue the API server refuses Jobs as long as they are there.
stop() {
  [ ! -s "$run/objects.json" ] || kubectl delete --request-timeout 10s -f "$run/objects.json" --ignore-not-found >/dev/null 2>&1 || true
  end kueue
}

case ${1:-} in
  get | start | stop) "$1" ;;
  env) environment kueue ;;
  *) sed -n '2,17s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
