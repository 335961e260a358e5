#!/bin/bash
# KEDA as two processes outside of the cluster, on the control plane of tools/peers/kubernetes.sh: the operator, and the
# adapter that serves external.metrics.k8s.io to the HorizontalPodAutoscalers that the operator creates.
#
#   tools/peers/keda.sh get      build them with Go into build/peers/keda (8 min, once)
#   tools/peers/keda.sh start    create definitions, the APIService and its rights, and start both (get first if needed)
#   tools/peers/keda.sh stop     stop them, and remove the APIService
#   tools/peers/keda.sh env      print "export QM_KEDA=1" for the tests while they run
#
# Needs a running control plane: tools/peers/kubernetes.sh start. The admission webhooks and certificate rotation are
# off. The API server reaches the adapter through a Service of type ExternalName with the name localhost. ScaledObjects
# that exist when it stops remain, with their finalizer, until it runs again.
#
# Settings: QM_KEDA_QPS and QM_KEDA_BURST, the limit of requests of each to the API server (default 20 and 30, as
# shipped; benchmarks set 5000 and 10000). On a second control plane (QM_KUBE_RUN, QM_KUBE_PORT) also QM_KEDA_RUN (run
# folder, default build/peers/keda/run) and QM_KEDA_PORT (first of five ports, default 27463: the operator's gRPC,
# health and metrics, the adapter's API and metrics).
set -euo pipefail

peer=keda
version=2.18.0
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/process.sh"
port=${QM_KEDA_PORT:-27463}
source=github.com/kedacore/keda/v2@v$version

# "go install" refuses a module whose go.mod replaces others: it is built in its own folder.
get() {
  have operator adapter && return 0
  local sources
  sources=$(module "$source")
  mkdir -p "$home"
  (cd "$sources" && go_build build -o "$home/" ./cmd/operator ./cmd/adapter)
  echo "$version" >"$home/version"
}

# The HorizontalPodAutoscaler controller reads the adapter's metrics through the API server.
objects() {
  cat >"$run/objects.yaml" <<YAML
apiVersion: v1
kind: Service
metadata: {name: keda-metrics-apiserver, namespace: keda}
spec: {type: ExternalName, externalName: localhost}
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1beta1.external.metrics.k8s.io}
spec:
  group: external.metrics.k8s.io
  version: v1beta1
  groupPriorityMinimum: 100
  versionPriority: 100
  service: {name: keda-metrics-apiserver, namespace: keda, port: $((port + 3))}
  caBundle: $(base64 -w0 "$run/certs/ca.crt")
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: keda-external-metrics-reader}
rules:
- {apiGroups: [external.metrics.k8s.io], resources: ["*"], verbs: ["*"]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: keda-hpa-controller-external-metrics}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: keda-external-metrics-reader}
subjects:
- {kind: ServiceAccount, name: horizontal-pod-autoscaler, namespace: kube-system}
YAML
}

available() {
  [ "$(kubectl get apiservice v1beta1.external.metrics.k8s.io \
    -o 'jsonpath={.status.conditions[?(@.type=="Available")].status}')" = True ]
}

start() {
  if ! attach operator adapter; then
    get
    stop  # one of them may run
    local sources limits=(--kube-api-qps="${QM_KEDA_QPS:-20}" --kube-api-burst="${QM_KEDA_BURST:-30}")
    sources=$(module "$source")
    prepare keda "$sources/config/crd/bases"
    certificates IP:127.0.0.1,DNS:localhost,DNS:keda-metrics-apiserver.keda.svc
    objects
    export WATCH_NAMESPACE='' POD_NAMESPACE=keda KEDA_CLUSTER_OBJECT_NAMESPACE=keda
    echo "${limits[*]#--kube-api-}" >"$run/limits"
    # Without the lease of an earlier process, which it would let expire first.
    kubectl delete lease -n keda operator.keda.sh --ignore-not-found >/dev/null
    spawn operator "$port" --metrics-service-bind-address="127.0.0.1:$port" \
      --health-probe-bind-address="127.0.0.1:$((port + 1))" --metrics-bind-address="127.0.0.1:$((port + 2))" \
      --leader-elect --cert-dir="$run/certs" --enable-cert-rotation=false "${limits[@]}"
    await operator readiness curl -fsS -m 2 "http://127.0.0.1:$((port + 1))/readyz"
    await operator lease kubectl get lease -n keda operator.keda.sh
    spawn adapter $((port + 3)) --bind-address=127.0.0.1 --secure-port=$((port + 3)) --port=$((port + 4)) \
      --metrics-service-address="localhost:$port" --cert-dir="$run/certs" --tls-cert-file="$run/certs/tls.crt" \
      --tls-private-key-file="$run/certs/tls.key" --lister-kubeconfig="$run/kubeconfig" \
      --authentication-kubeconfig="$run/kubeconfig" --authorization-kubeconfig="$run/kubeconfig" "${limits[@]}"
    await adapter readiness curl -fsS -m 2 --cacert "$run/certs/ca.crt" "https://127.0.0.1:$((port + 3))/readyz"
    kubectl apply -f "$run/objects.yaml" >/dev/null
    await adapter "available APIService" available
  fi
  say "KEDA $version is serving, $(sed 's/\([a-z]*\)=/\1: /g; s/ burst/, burst/' "$run/limits")"
}

# The APIService first: with a missing server, API discovery and the deletion of namespaces fail.
stop() {
  [ ! -s "$run/objects.yaml" ] || kubectl delete --request-timeout 10s -f "$run/objects.yaml" --ignore-not-found >/dev/null 2>&1 || true
  end adapter
  end operator
}

case ${1:-} in
  get | start | stop) "$1" ;;
  env) environment operator adapter ;;
  *) sed -n '2,18s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
