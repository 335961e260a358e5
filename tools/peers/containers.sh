#!/bin/bash
# Images and containers without a daemon: podman, buildah and podman-compose, with settings and storage of their own.
#
#   tools/peers/containers.sh get     install missing Debian packages, as root, and write the settings
#   tools/peers/containers.sh env     print the settings as export lines
#   tools/peers/containers.sh rootfs NAME [PACKAGE...]   a Debian 12 with these packages as NAME.tar next to the
#                                     settings; prints its path; created once
#   tools/peers/containers.sh watch PROJECT   run the health checks of a project's containers, until there are none
#   tools/peers/containers.sh stop    stop and remove every container of this storage
#   tools/peers/containers.sh clean   stop, and delete images and volumes (each build leaves its old ones: gigabytes)
#
#   eval "$(tools/peers/containers.sh env)" && tools/images.sh build && podman images
#
# The settings are for hosts on which containers themselves are confined: storage by copies (vfs), limits below those
# of the shell, runc with cgroupfs, the host's network. Without systemd health checks do not run by themselves;
# `watch` runs them.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd -P)
root=$(cd "$here/../.." && pwd -P)
base=${QM_PEERS_DIR:-$root/build/peers}/containers
packages=(podman buildah runc mmdebstrap uidmap golang-github-containers-image golang-github-containers-common libcap2-bin python3-venv)
modules=(podman-compose==1.6.0 check-jsonschema==0.39.0 spdx-tools==0.8.5 "cyclonedx-python-lib[json-validation]==11.12.0")

say() { echo "containers: $*" >&2; }
die() { say "$*"; exit 1; }

have() {
  local program
  for program in podman buildah runc mmdebstrap "$base"/venv/bin/{podman-compose,check-jsonschema,pyspdxtools}; do
    command -v "$program" >/dev/null || return 1
  done
  [ -f "$base/containers.conf" ]
}

get() {
  local need=() package
  mkdir -p "$base"
  for package in "${packages[@]}"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || need+=("$package")
  done
  if [ ${#need[@]} -gt 0 ]; then
    [ "$(id -u)" = 0 ] || die "run this first: sudo apt-get install -y --no-install-recommends ${need[*]}"
    say "installing ${need[*]}"
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${need[@]}" >"$base/apt.log" 2>&1 ||
      { tail -5 "$base/apt.log" >&2; die "apt could not install them: see $base/apt.log"; }
  fi
  if [ "$(cat "$base/venv/modules" 2>/dev/null)" != "${modules[*]}" ]; then
    python3 -m venv "$base/venv"
    "$base/venv/bin/pip" install -q --disable-pip-version-check "${modules[@]}"
    echo "${modules[*]}" >"$base/venv/modules"
  fi
  cat >"$base/containers.conf" <<CONF
[containers]
default_ulimits=["nofile=4096:4096","nproc=4096:4096"]
netns="host"
[engine]
runtime="runc"
cgroup_manager="cgroupfs"
events_logger="file"
CONF
  printf '[storage]\ndriver="vfs"\ngraphroot="%s/storage"\nrunroot="%s/run"\n' "$base" "$base" >"$base/storage.conf"
}

settings() {
  have || die "not there: tools/peers/containers.sh get"
  cat <<ENV
export QM_CONTAINERS=$base
export CONTAINERS_CONF=$base/containers.conf
export CONTAINERS_STORAGE_CONF=$base/storage.conf
export BUILDAH_ISOLATION=chroot
export QM_PODMAN_COMPOSE=$base/venv/bin/podman-compose
export QM_CHECK_JSONSCHEMA=$base/venv/bin/check-jsonschema
export QM_SBOM_PYTHON=$base/venv/bin/python3
ENV
}

rootfs() {
  local name=$1
  shift
  local include
  include=$(IFS=,; echo "$*")
  if [ ! -f "$base/$name.tar" ]; then
    mmdebstrap --quiet --variant=minbase ${include:+--include="$include"} bookworm "$base/$name.new.tar" >&2
    mv "$base/$name.new.tar" "$base/$name.tar"
  fi
  echo "$base/$name.tar"
}

# The result of a health check is recorded by the process that runs it; without systemd this script is that process.
watch() {
  local seen= names name
  while true; do
    names=$(podman ps --filter "label=io.podman.compose.project=$1" --format '{{.Names}}')
    [ -n "$names" ] && seen=1
    [ -z "$names" ] && [ -n "$seen" ] && return 0
    for name in $names; do podman healthcheck run "$name" >/dev/null 2>&1 || true; done
    sleep 0.5
  done
}

case ${1:-} in
  get) get ;;
  env) settings ;;
  rootfs) [ $# -ge 2 ] || die "rootfs NAME [PACKAGE...]"; shift; rootfs "$@" ;;
  watch) [ $# = 2 ] || die "watch PROJECT"; eval "$(settings)"; watch "$2" ;;
  stop) eval "$(settings)"; podman rm -f -a -t 5 >/dev/null ;;
  clean) eval "$(settings)"; podman rm -f -a -t 5 >/dev/null; buildah rm -a >/dev/null; podman volume rm -f -a >/dev/null; podman rmi -f -a >/dev/null; rm -f "$base"/*.tar ;;
  *) sed -n '2,16s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
