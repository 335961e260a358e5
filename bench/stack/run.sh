#!/bin/bash
# The same Jobs on kube-scheduler, on Kueue with kube-scheduler, and on Quartermaster; bench/stack/stack.py --help.
#
#   bench/stack/run.sh BIN [OPTION...]      BIN = the folder of qm-demo, such as build/release/bin
set -euo pipefail
bin=${1:?the folder of qm-demo, such as build/release/bin}
shift
root=$(cd "$(dirname "$0")/../.." && pwd -P)
cd "$root"
QM_BIN=$(cd "$bin" && pwd -P)
export QM_BIN
shared_buffers=128MB  # PostgreSQL's default
. "$root/bench/common/postgres.sh"
QM_STACK_POSTGRES=$conninfo python3 "$root/bench/stack/stack.py" "$@"
