#!/usr/bin/env bash
# The images of the suite.
#
#   tools/images.sh layout [FOLDER]   a root file system per program, and one with all, from build/release/bin or
#                                     QM_BIN_DIR, each with its SBOM (tools/sbom.py)
#   tools/images.sh build [TAG]       layout, then every target of the Dockerfile by buildah as quartermaster/NAME:TAG;
#                                     prints each with the digest of the built image
#   tools/images.sh push TO [TAG]     pushes to TO/NAME:TAG (TO: registry.example.com/quartermaster), prints the digests
#                                     in TO, as variables for docker-compose.yml and as values for the chart
#
# BUILDAH_ISOLATION, CONTAINERS_CONF and CONTAINERS_STORAGE_CONF are buildah's own settings and pass through.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
readonly PROGRAMS=(qm-admission qm-placement qm-autoscaler qm-telemetry qm-cost qm-agent qmctl qm-fleet)
bin=${QM_BIN_DIR:-build/${QM_PRESET:-release}/bin}

need() { command -v "$1" >/dev/null || { echo "images: $1 is missing: apt-get install $1" >&2; exit 1; }; }

layout() {
  local out=${1:-build/images} program version
  for program in "${PROGRAMS[@]}"; do
    [ -x "$bin/$program" ] || { echo "images: $bin/$program is not built: ./qm build product" >&2; exit 1; }
  done
  version=$(sed -n 's/^project(quartermaster VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
  rm -rf "$out"
  for program in "${PROGRAMS[@]}"; do
    tools/image-root.sh "$bin/$program" "$out/$program"
    tools/sbom.py "$out/$program" "$program" "$version"
  done
  tools/image-root.sh "$bin/qmctl" "$out/quartermaster" "${PROGRAMS[@]/#/$bin/}"
  tools/sbom.py "$out/quartermaster" quartermaster "$version"
}

build() {
  local tag=${1:-dev} target name
  need buildah
  layout
  for target in "${PROGRAMS[@]}" quartermaster; do
    name=localhost/quartermaster/$target:$tag
    buildah build --quiet --build-arg BINARIES=given --target "$target" -t "$name" . >/dev/null
    echo "$name $(buildah inspect --type image --format '{{.FromImageDigest}}' "$name")"
  done
}

push() {
  [ $# -ge 1 ] || { echo "images: push where? For instance registry.example.com/quartermaster" >&2; exit 2; }
  local to=${1%/} tag=${2:-dev} target digest file variable
  to=${to#docker://}
  need buildah
  file=$(mktemp)
  # shellcheck disable=SC2064  # the name is known now
  trap "rm -f '$file'" EXIT
  for target in "${PROGRAMS[@]}" quartermaster; do
    buildah push --quiet --digestfile "$file" "localhost/quartermaster/$target:$tag" "$to/$target:$tag" >/dev/null
    digest=$(cat "$file")
    variable=${target#qm-}
    [ "$target" = quartermaster ] || echo "QM_IMAGE_${variable^^}=$to/$target@$digest"
  done
  echo "# helm: --set image.registry=${to%%/*} --set image.repository=${to#*/}/quartermaster --set image.digest=$digest"
}

case ${1:-} in
  layout | build | push) "$@" ;;
  *) sed -n '4,9p' "$0" >&2; exit 2 ;;
esac
