#!/bin/bash
# Chromium, which renders the pictures of the documentation for a test. Debian's package.
#
#   tools/peers/chromium.sh get    install the package where it is missing; as root only
#   tools/peers/chromium.sh env    print "export QM_CHROMIUM=path" for the tests
set -euo pipefail

die() { echo "chromium: $*" >&2; exit 1; }

case ${1:-} in
  get)
    command -v chromium >/dev/null && exit 0
    command -v apt-get >/dev/null || die "apt-get is missing: install Chromium by hand"
    [ "$(id -u)" = 0 ] || die "is missing: sudo apt-get install chromium"
    export DEBIAN_FRONTEND=noninteractive
    install() { apt-get install -y -q --no-install-recommends -o DPkg::Lock::Timeout=600 chromium; }
    install || { apt-get update -q && install; } ;;
  env)
    command -v chromium >/dev/null || die "is missing: tools/peers/chromium.sh get"
    echo "export QM_CHROMIUM=$(command -v chromium)" ;;
  *) sed -n '2,5s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
