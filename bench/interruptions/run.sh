#!/bin/bash
# Notices: 15,000 messages of an SQS queue until each is committed and deleted, and 1,000 notices in one step.
#
#   bench/interruptions/run.sh BIN      BIN = the folder of interruptions_bench, such as build/release/bin
set -euo pipefail
bin=${1:?the folder of interruptions_bench}
"$bin/interruptions_bench" "${@:2}"
