#!/bin/bash
# promtool of Prometheus, which tests alert rules. Unpacked from Debian's package: installing that starts a server.
#
#   tools/peers/promtool.sh get    download the package and unpack promtool into build/peers/promtool (once)
#   tools/peers/promtool.sh env    print "export QM_PROMTOOL=path" for the tests
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd -P)
home=${QM_PEERS_DIR:-$root/build/peers}/promtool

die() { echo "promtool: $*" >&2; exit 1; }

case ${1:-} in
  get)
    [ -x "$home/promtool" ] && exit 0
    command -v apt-get >/dev/null || die "apt-get is missing: install Prometheus by hand and set QM_PROMTOOL"
    rm -rf "$home" && mkdir -p "$home"
    # The package lists of a new host are empty: they are fetched before the second attempt.
    (cd "$home" && { apt-get download -q prometheus || { apt-get update -q && apt-get download -q prometheus; }; }) >"$home/apt.log" 2>&1 ||
      { tail -3 "$home/apt.log" >&2; die "the package prometheus could not be downloaded: see $home/apt.log"; }
    dpkg-deb --fsys-tarfile "$home"/prometheus_*.deb | tar -xO ./usr/bin/promtool >"$home/promtool.new"
    chmod +x "$home/promtool.new"
    mv "$home/promtool.new" "$home/promtool"
    rm -f "$home"/prometheus_*.deb ;;
  env)
    [ -x "$home/promtool" ] || die "is not there: tools/peers/promtool.sh get"
    echo "export QM_PROMTOOL=$home/promtool" ;;
  *) sed -n '2,5s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
