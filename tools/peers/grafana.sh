#!/bin/bash
# Grafana's own types of a dashboard, and the TypeScript compiler that checks a dashboard against them. The Grafana
# server is not available as a package; its published schema is the closest substitute.
#
#   tools/peers/grafana.sh get            fetch both by npm into build/peers/grafana/<hash of the versions>
#   tools/peers/grafana.sh check FILE...  exit 0 if each FILE is a valid dashboard; else the compiler's messages
#   tools/peers/grafana.sh env            print "export QM_GRAFANA_SCHEMA=folder"
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd -P)
root=$(cd "$here/../.." && pwd -P)
versions="@grafana/schema@13.2.3 typescript@5.9.3"
home=${QM_PEERS_DIR:-$root/build/peers}/grafana/$(echo "$versions" | sha256sum | cut -c1-16)

say() { echo "grafana: $*" >&2; }
die() { say "$*"; exit 1; }

get() {
  [ -e "$home/done" ] && return 0
  command -v npm >/dev/null || die "npm is missing: install Node 20 (Debian: apt-get install npm)"
  mkdir -p "$home"
  say "fetching $versions (about 25 MB, once)"
  # shellcheck disable=SC2086
  (cd "$home" && npm install --ignore-scripts --no-audit --no-fund --silent --prefix . $versions >npm.log 2>&1) ||
    { tail -5 "$home/npm.log" >&2; die "npm could not fetch them; a mirror goes into ~/.npmrc"; }
  touch "$home/done"
}

check() {
  [ -e "$home/done" ] || die "not fetched: run $0 get"
  local file name
  rm -f "$home"/*.check.ts
  for file in "$@"; do
    name=$(basename "$file" .json)
    # The closing brace and the type must be on one line: text after a line break would be a new statement. JSON has no
    # enumerations, so the required one is inserted by name.
    {
      echo "import {Dashboard, ThresholdsMode} from '@grafana/schema';"
      printf 'export const d = %s satisfies Partial<Dashboard>;\n' \
        "$(sed 's/"mode": "absolute"/"mode": ThresholdsMode.Absolute/' "$file")"
    } >"$home/$name.check.ts"
  done
  cd "$home" && npx tsc --noEmit --strict --skipLibCheck --moduleResolution node --module commonjs --target es2022 ./*.check.ts
}

case ${1:-} in
  get) get ;;
  check) shift; check "$@" ;;
  env) [ -e "$home/done" ] || die "not fetched: run $0 get"; echo "export QM_GRAFANA_SCHEMA=$home" ;;
  *) sed -n '5,7p' "$0" >&2; exit 2 ;;
esac
