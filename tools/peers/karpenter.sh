#!/bin/bash
# Karpenter with its kwok provider as a process outside of the cluster, on the control plane of
# tools/peers/kubernetes.sh: it launches nodes that the control plane's kwok simulates.
#
#   tools/peers/karpenter.sh get      build it with Go into build/peers/karpenter (3 min, once)
#   tools/peers/karpenter.sh start    create its definitions in the cluster, and start it (get first if needed)
#   tools/peers/karpenter.sh stop     stop it
#   tools/peers/karpenter.sh env      print "export QM_KARPENTER=1" for the tests while it runs
#
# Needs a running control plane: tools/peers/kubernetes.sh start. It has no webhooks. Its NodePools refer to a
# KWOKNodeClass of karpenter.kwok.sh. NodeClaims and nodes that exist when it stops remain, with their finalizer, until
# it runs again.
#
# Settings: QM_KARPENTER_TYPES (a file of instance types in the form of kwok/cloudprovider/instance_types.json of the
# module; default: that file), QM_KARPENTER_QPS and QM_KARPENTER_BURST, its limit of requests to the API server (default
# 200 and 300, as shipped; benchmarks set 5000 and 10000). On a second control plane (QM_KUBE_RUN, QM_KUBE_PORT) also
# QM_KARPENTER_RUN (run folder, default build/peers/karpenter/run) and QM_KARPENTER_PORT (first of two ports, default
# 27453: health, metrics).
set -euo pipefail

peer=karpenter
version=1.14.1
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/process.sh"
port=${QM_KARPENTER_PORT:-27453}
source=sigs.k8s.io/karpenter

get() {
  have karpenter && return 0
  need_go
  mkdir -p "$home"
  GOBIN=$home go_build install "$source/kwok@v$version"
  mv "$home/kwok" "$home/karpenter"  # the control plane has a kwok too
  echo "$version" >"$home/version"
}

# What the program reads from its environment.
configuration() {
  local types=${QM_KARPENTER_TYPES:-}
  [ -z "$types" ] || types=$(realpath -e "$types" 2>/dev/null) || die "QM_KARPENTER_TYPES: there is no file $QM_KARPENTER_TYPES"
  cat >"$run/settings" <<SETTINGS
KUBE_CLIENT_QPS=${QM_KARPENTER_QPS:-200}
KUBE_CLIENT_BURST=${QM_KARPENTER_BURST:-300}
INSTANCE_TYPES_FILE_PATH=$types
HEALTH_PROBE_PORT=$port
METRICS_PORT=$((port + 1))
SYSTEM_NAMESPACE=karpenter
KARPENTER_SERVICE=karpenter
DISABLE_LEADER_ELECTION=true
SETTINGS
}

start() {
  if ! attach karpenter; then
    get
    local sources
    sources=$(module "$source@v$version")
    prepare karpenter "$sources/kwok/charts/crds" "$sources/kwok/apis/crds"
    configuration
    (
      while IFS= read -r line; do export "${line?}"; done <"$run/settings"
      spawn karpenter "$port"
    )
    await karpenter readiness curl -fsS -m 2 "http://127.0.0.1:$port/readyz"
  fi
  local types
  types=$(sed -n 's/^INSTANCE_TYPES_FILE_PATH=//p' "$run/settings")
  say "Karpenter $version (kwok provider) is serving," \
    "$(sed -n 's/^KUBE_CLIENT_QPS=/qps: /p' "$run/settings")," \
    "$(sed -n 's/^KUBE_CLIENT_BURST=/burst: /p' "$run/settings"), instance types: ${types:-its own}"
}

case ${1:-} in
  get | start) "$1" ;;
  stop) end karpenter ;;
  env) environment karpenter ;;
  *) sed -n '2,20s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
