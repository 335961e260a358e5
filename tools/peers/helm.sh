#!/bin/bash
# Helm, for tests of the chart. It comes from the same Go module as the Kubernetes peer, so their builds share nearly all.
#
#   tools/peers/helm.sh get    build it into build/peers/kubernetes/<hash>/bin (a minute after the Kubernetes peer)
#   tools/peers/helm.sh env    print "export QM_HELM=path"
set -euo pipefail
kubernetes=$(cd "$(dirname "$0")" && pwd -P)/kubernetes.sh

case ${1:-} in
  get) exec "$kubernetes" get helm ;;
  env)
    helm=$("$kubernetes" where helm)
    [ -x "$helm" ] || { echo "helm: is not built: tools/peers/helm.sh get" >&2; exit 1; }
    echo "export QM_HELM=$helm" ;;
  *) sed -n '2,5s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
