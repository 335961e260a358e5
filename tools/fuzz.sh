#!/usr/bin/env bash
# Every property test with new seeds, round after round. Called by ./qm fuzz [ROUNDS] [--preset asan].
# A failing seed is printed as the line that repeats it.
#
# ./qm fuzz guided [SECONDS]: libFuzzer at each door of admission, under the address sanitizer, so long each. What it learned stays
# in build/guided/corpus; an input that breaks a law is left in build/guided as crash-*.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."

guided() {
  local seconds=${1:-60} build=build/guided door bad=0
  command -v clang++-14 >/dev/null && ls /usr/lib/llvm-14/lib/clang/*/lib/linux/libclang_rt.fuzzer-*.a >/dev/null 2>&1 ||
    apt-get install -y -qq clang-14 libclang-rt-14-dev >/dev/null
  cmake -S . -B $build -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_CXX_COMPILER=clang++-14 -DQM_GUIDED_FUZZ=ON \
    -DCMAKE_CXX_FLAGS="-fsanitize=fuzzer-no-link,address -g1" >build/guided-configure.log
  nice ninja -C $build admission_{manifest,review,input}_fuzz >build/guided-build.log || { tail -20 build/guided-build.log; return 1; }
  for door in manifest review input; do
    mkdir -p "$build/corpus/$door"
    if QM_FUZZ_SEEDS=$PWD/$build/corpus/$door "$build/bin/admission_${door}_fuzz" -max_total_time="$seconds" -max_len=20000 \
      -timeout=20 -rss_limit_mb=4096 -artifact_prefix="$build/" -print_final_stats=1 "$build/corpus/$door" >"$build/$door.log" 2>&1; then
      echo "$door: $(sed -n 's/^stat::number_of_executed_units: *//p' "$build/$door.log") runs, $(grep -o 'cov: [0-9]*' "$build/$door.log" | tail -1), nothing found"
    else
      bad=$((bad + 1))
      echo "$door: failed"
      tail -30 "$build/$door.log"
    fi
  done
  return $bad
}
if [ "${1:-}" = guided ]; then
  shift
  guided "$@"
  exit
fi

rounds=20 preset=release
while [ $# -gt 0 ]; do
  case $1 in
    --preset) preset=$2; shift 2 ;;
    *[!0-9]*) echo "qm fuzz: \"$1\" is no number of rounds" >&2; exit 2 ;;
    *) rounds=$1; shift ;;
  esac
done
sources=$(grep -rlE --include='*.cpp' 'RC_GTEST(_FIXTURE)?_PROP' libs services agent cli demo fleet)
# shellcheck disable=SC2086
filter=$(grep -hoE 'RC_GTEST(_FIXTURE)?_PROP\(\w+' $sources | sed -E 's/.*\((.*)/\1.*/' | sort -u | paste -sd:)
binaries=()
for binary in build/"$preset"/bin/*_test; do
  "$binary" --gtest_filter="$filter" --gtest_list_tests 2>/dev/null | grep -q '^  ' && binaries+=("$binary")
done
[ ${#binaries[@]} -gt 0 ] || { echo "qm fuzz: build/$preset has no tests: ./qm build --preset $preset tests" >&2; exit 1; }
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
