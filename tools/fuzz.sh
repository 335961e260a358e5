#!/usr/bin/env bash
# Every property test with new seeds, in rounds. Called by ./qm fuzz [ROUNDS] [--asan].
# A failing seed is printed as the command that repeats it.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
rounds=20 ending=_test
while [ $# -gt 0 ]; do
  case $1 in
    --asan) ending=_test_asan; shift ;;
    *[!0-9]*) echo "qm fuzz: \"$1\" is not a number of rounds" >&2; exit 2 ;;
    *) rounds=$1; shift ;;
  esac
done
sources=$(grep -rlE --include='*.cpp' 'RC_GTEST(_FIXTURE)?_PROP' libs services agent cli demo fleet)
# shellcheck disable=SC2086
filter=$(grep -hoE 'RC_GTEST(_FIXTURE)?_PROP\(\w+' $sources | sed -E 's/.*\((.*)/\1.*/' | sort -u | paste -sd:)
binaries=()
for binary in build/release/bin/*$ending; do
  "$binary" --gtest_filter="$filter" --gtest_list_tests 2>/dev/null | grep -q '^  ' && binaries+=("$binary")
done
[ ${#binaries[@]} -gt 0 ] || { echo "qm fuzz: there are no tests: ./qm build core_tests asan_tests" >&2; exit 1; }
bad=0
for ((round = 1; round <= rounds; round++)); do
  for binary in "${binaries[@]}"; do
    seed=$(od -An -N6 -tu8 /dev/urandom | tr -d ' ')
    RC_PARAMS="seed=$seed" "$binary" --gtest_filter="$filter" --gtest_brief=1 >build/fuzz.log 2>&1 && continue
    bad=$((bad + 1))
    echo "failed; again with: RC_PARAMS=seed=$seed $binary --gtest_filter='$filter'"
    tail -20 build/fuzz.log
  done
  [ $((round % 10)) -ne 0 ] || echo "   $round rounds, $bad failures"
done
echo "$rounds rounds of ${#binaries[@]} binaries, $bad failures"
[ "$bad" -eq 0 ]
