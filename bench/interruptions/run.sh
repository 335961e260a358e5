#!/bin/bash
# Notices: 15,000 messages of an SQS queue until each is committed and deleted, 1,000 notices in one step, and the path of a
# notice through the programs. With verbs only these: queue, aws, gcp, gangs.
#
#   bench/interruptions/run.sh BIN [VERB...]      BIN = the folder of interruptions_bench, such as build/release/bin
set -euo pipefail
bin=${1:?the folder of interruptions_bench}
shift
[ $# -gt 0 ] || set -- queue aws gcp gangs
root=$(cd "$(dirname "$0")/../.." && pwd -P)
echo "load before: $(cut -d' ' -f1-3 /proc/loadavg), cores: $(nproc)"
for verb in "$@"; do
  case $verb in
    queue) (. "$root/bench/common/postgres.sh"; "$bin/interruptions_bench" "$conninfo") ;;
    *) "$bin/interruptions_path_bench" "$verb" ;;
  esac
done
echo "load after: $(cut -d' ' -f1-3 /proc/loadavg)"
