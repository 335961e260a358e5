#!/bin/sh
# A separate Python with gRPC, pinned, for the client that proves that the API is usable from another language.
#
#   tools/peers/pyclient.sh get     creates the virtual environment (about 60 MB; once)
#   tools/peers/pyclient.sh env     prints QM_PYCLIENT, the path of its interpreter, for the tests
#
#   eval "$(tools/peers/pyclient.sh env)"
#   "$QM_PYCLIENT" tests/e2e/client_py/client.py --endpoints build/run/endpoints.json --proto proto
set -eu

version=1.62.3
root=$(cd "$(dirname "$0")/../.." && pwd)
home=${QM_PEERS_DIR:-$root/build/peers}/pyclient
venv=$home/venv

fail() {
  echo "pyclient: $*" >&2
  exit 1
}

have() {
  [ -x "$venv/bin/python" ] && [ "$(cat "$home/version" 2>/dev/null)" = "$version" ]
}

get() {
  if have; then
    return
  fi
  mkdir -p "$home"
  rm -rf "$venv"
  python3 -m venv "$venv" || fail "python3 has no venv module; install the package python3-venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check "grpcio==$version" "grpcio-tools==$version" ||
    fail "pip could not install grpcio-tools $version"
  echo "$version" >"$home/version"
}

case ${1:-} in
  get) get ;;
  env) have || fail "is not installed; run: $0 get"; echo "export QM_PYCLIENT=$venv/bin/python" ;;
  *) sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
