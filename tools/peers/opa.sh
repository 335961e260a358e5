#!/bin/bash
# Open Policy Agent, which evaluates the rego that ships for Gatekeeper.
#
#   tools/peers/opa.sh get    build it with Go into build/peers/opa (3 minutes, once)
#   tools/peers/opa.sh env    print "export QM_OPA=path" for the tests
set -euo pipefail

version=1.22.2
root=$(cd "$(dirname "$0")/../.." && pwd -P)
home=${QM_PEERS_DIR:-$root/build/peers}/opa

die() { echo "opa: $*" >&2; exit 1; }
have() { [ -x "$home/opa" ] && [ "$(cat "$home/version" 2>/dev/null)" = "$version" ]; }

case ${1:-} in
  get)
    have && exit 0
    command -v go >/dev/null || PATH=$PATH:/usr/local/go/bin
    command -v go >/dev/null || die "Go is missing, of 1.25 or newer: put it in /usr/local/go"
    mkdir -p "$home"
    GOBIN=$home CGO_ENABLED=0 GOFLAGS=-buildvcs=false go install -ldflags="-s -w" "github.com/open-policy-agent/opa@v$version"
    echo "$version" >"$home/version" ;;
  env)
    have || die "is not built: tools/peers/opa.sh get"
    echo "export QM_OPA=$home/opa" ;;
  *) sed -n '2,5s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
