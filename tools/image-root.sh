#!/usr/bin/env bash
# Creates the file system of an image with one program and nothing else: the program, its shared libraries, the loader,
# certificates of the public CAs, time zones where schedules name them, and names for uid 65532. No shell, no package manager.
#
#   tools/image-root.sh BINARY FOLDER [PROGRAM-TO-ADD...]
set -euo pipefail
[ $# -ge 2 ] || { sed -n '5p' "$0" >&2; exit 2; }
binary=$1 root=$2
shift 2
mkdir -p "$root"/{usr/bin,etc/ssl/certs,tmp,var/lib/quartermaster}
chmod 1777 "$root/tmp"
chown 65532:65532 "$root/var/lib/quartermaster" 2>/dev/null || true
for program in "$binary" "$@"; do
  install -m 0755 "$program" "$root/usr/bin/"
  # "name => /path (address)" and, for the loader, "/path (address)". Links are followed: only files requested by name.
  ldd "$program" | awk '$2 == "=>" && $3 ~ /^\// { print $3 } $1 ~ /^\// { print $1 }' | sort -u | while read -r object; do
    mkdir -p "$root$(dirname "$object")"
    cp -Lu "$object" "$root$object"
  done
done
# Schedules of replicas and windows of quota name time zones.
for program in "$binary" "$@"; do
  case ${program##*/} in
    qm-admission | qm-autoscaler)
      mkdir -p "$root/usr/share"
      cp -a --no-preserve=ownership /usr/share/zoneinfo "$root/usr/share/"
      ;;
  esac
done
cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
printf 'root:x:0:0:root:/:/nonexistent\nquartermaster:x:65532:65532:quartermaster:/var/lib/quartermaster:/nonexistent\n' >"$root/etc/passwd"
printf 'root:x:0:\nquartermaster:x:65532:\n' >"$root/etc/group"
printf 'hosts: files dns\n' >"$root/etc/nsswitch.conf"
