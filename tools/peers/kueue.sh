#!/bin/bash
# Kueue with its shipped defaults as a process outside of the cluster, on the control plane of
# tools/peers/kubernetes.sh.
#
#   tools/peers/kueue.sh get      build it with Go into build/peers/kueue (5 min, once)
#   tools/peers/kueue.sh start    create its definitions and webhooks in the cluster, and start it (get first if needed)
#   tools/peers/kueue.sh stop     stop it, and remove its webhooks
#   tools/peers/kueue.sh env      print "export QM_KUEUE=1" for the tests while it runs
#
# Needs a running control plane: tools/peers/kubernetes.sh start. The integration batch/job is on. The metrics server
# reads its certificate from a fixed path, /etc/kueue/metrics/certs.
set -euo pipefail

version=0.17.0
here=$(cd "$(dirname "$0")" && pwd -P)
root=$(cd "$here/../.." && pwd -P)
home=${QM_PEERS_DIR:-$root/build/peers}/kueue
run=$home/run
port=${QM_KUEUE_PORT:-27443}  # of the webhooks; the two next ones are health and metrics

say() { echo "kueue: $*" >&2; }
die() { say "$*"; exit 1; }
need_go() {
  command -v go >/dev/null || PATH=$PATH:/usr/local/go/bin
  command -v go >/dev/null || die "Go is missing, of 1.25 or newer: put it in /usr/local/go"
}
module() { need_go; go mod download -json "sigs.k8s.io/kueue@v$version" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p'; }
running() { [ -s "$run/pid" ] && kill -0 "$(cat "$run/pid")" 2>/dev/null; }
# The environment of the control plane; ends with its message if it does not run.
control_plane() {
  local environment
  environment=$("$here/kubernetes.sh" env) || exit 1
  eval "$environment"
}
kubectl() { "$QM_KUBECTL" --kubeconfig "$KUBECONFIG" "$@"; }

get() {
  [ -x "$home/kueue" ] && [ "$(cat "$home/version" 2>/dev/null)" = "$version" ] && return 0
  need_go
  mkdir -p "$home"
  GOBIN=$home CGO_ENABLED=0 GOFLAGS=-buildvcs=false nice go install -ldflags="-s -w" "sigs.k8s.io/kueue/cmd/kueue@v$version"
  echo "$version" >"$home/version"
}

certificates() {
  [ -s "$run/certs/tls.crt" ] && return 0
  mkdir -p "$run/certs"
  (
    cd "$run/certs"
    openssl req -x509 -newkey rsa:2048 -nodes -days 365 -subj /CN=kueue-ca -keyout ca.key -out ca.crt 2>/dev/null
    openssl req -newkey rsa:2048 -nodes -subj /CN=kueue -keyout tls.key -out tls.csr 2>/dev/null
    openssl x509 -req -in tls.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 365 -out tls.crt \
      -extfile <(echo "subjectAltName=IP:127.0.0.1") 2>/dev/null
  )
  mkdir -p /etc/kueue/metrics/certs
  cp "$run/certs/tls.crt" "$run/certs/tls.key" /etc/kueue/metrics/certs/
}

# Definitions with their conversion, and the webhooks of Kueue's own kinds and of Jobs, by URL.
objects() {
  local crds
  crds=$(module)/config/components
  kubectl create namespace kueue-system --dry-run=client -o yaml | kubectl apply -f - >/dev/null
  kubectl apply --server-side --force-conflicts -f "$crds/crd/bases" >/dev/null
  # Kueue looks for ProvisioningRequests when it starts.
  kubectl apply --server-side --force-conflicts -f "$root/deploy/crds/ecosystem/capacity.yaml" >/dev/null
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
leaderElection: {leaderElect: true, resourceName: c1f6bfd2.kueue.x-k8s.io, resourceNamespace: kueue-system}
clientConnection: {qps: 50, burst: 100}
internalCertManagement: {enable: false}
integrations: {frameworks: ["batch/job"]}
featureGates: {VisibilityOnDemand: false}
YAML
}

start() {
  running && return 0
  get
  control_plane
  mkdir -p "$run"
  certificates
  objects
  configuration
  KUBECONFIG=$KUBECONFIG setsid "$home/kueue" --config "$run/config.yaml" --zap-log-level=2 >"$run/log" 2>&1 </dev/null &
  echo $! >"$run/pid"
  local i
  for ((i = 0; i < 120; i++)); do
    running || { tail -5 "$run/log" >&2; die "has ended, see $run/log"; }
    if curl -fsS -m 2 "http://127.0.0.1:$((port + 1))/readyz" >/dev/null 2>&1; then
      kubectl apply -f "$run/objects.json" >/dev/null
      say "serving"
      return 0
    fi
    sleep 0.5
  done
  die "is not ready after 60 s, see $run/log"
}

stop() {
  running || return 0
  control_plane
  kubectl delete -f "$run/objects.json" --ignore-not-found >/dev/null 2>&1 || true
  kill "$(cat "$run/pid")" 2>/dev/null || true
  rm -f "$run/pid"
}

case ${1:-} in
  get | start | stop) "$1" ;;
  env)
    running || die "does not run: tools/peers/kueue.sh start"
    echo "export QM_KUEUE=1" ;;
  *) sed -n '2,12s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
