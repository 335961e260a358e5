#!/usr/bin/env bash
# The images of the suite.
#
#   tools/images.sh layout [FOLDER]   a root file system per program, and one with all, from build/release/bin or QM_BIN_DIR
#   tools/images.sh build [TAG]       layout, then every target of the Dockerfile by buildah as quartermaster/NAME:TAG
#
# BUILDAH_ISOLATION, CONTAINERS_CONF and CONTAINERS_STORAGE_CONF are buildah's own settings and pass through.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
readonly PROGRAMS=(qm-admission qm-placement qm-autoscaler qm-telemetry qm-cost qm-agent qmctl qm-fleet)
bin=${QM_BIN_DIR:-build/${QM_PRESET:-release}/bin}

layout() {
  local out=${1:-build/images} program
  for program in "${PROGRAMS[@]}"; do
    [ -x "$bin/$program" ] || { echo "images: $bin/$program is not built: ./qm build product" >&2; exit 1; }
  done
  rm -rf "$out"
  for program in "${PROGRAMS[@]}"; do
    tools/image-root.sh "$bin/$program" "$out/$program"
  done
  tools/image-root.sh "$bin/qmctl" "$out/quartermaster" "${PROGRAMS[@]/#/$bin/}"
}

build() {
  local tag=${1:-dev} target
  command -v buildah >/dev/null || { echo "images: buildah is missing: apt-get install buildah" >&2; exit 1; }
  layout
  for target in "${PROGRAMS[@]}" quartermaster; do
    buildah build --quiet --build-arg BINARIES=given --target "$target" -t "localhost/quartermaster/$target:$tag" . >/dev/null
    echo "localhost/quartermaster/$target:$tag"
  done
}

case ${1:-} in
  layout | build) "$@" ;;
  *) sed -n '4,5p' "$0" >&2; exit 2 ;;
esac
