#!/usr/bin/env bash
# The long checks, which no test run includes: called by ./qm check NAME. Each writes its result, with the commit that
# it tested, to docs/results/NAME.md.
#
#   tsan       libraries and engines under the thread sanitizer
#   coverage   [SERVICE] lines and branches covered by the tests without a server, by folder (gcovr); of one service, by
#              part
#   tidy       clang-tidy over the tree: findings by check
#   fuzz       [ROUNDS] every property test with new seeds, without and with the address sanitizer
#   counts     tests by their requirements, and lines of code by folder
#   minutes    a build without the compiler cache, by target; expensive headers; the slowest tests of the last run;
#              peers
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
mkdir -p build docs/results

die() { echo "qm check: $*" >&2; exit 1; }

# Writes the page from its input, with the tested commit.
record() {  # name, title, what was run
  local commit
  commit=$(git rev-parse --short HEAD)
  [ -z "$(git status --porcelain --untracked-files=no -- . ':!docs/results')" ] || commit="$commit and changes that are not committed"
  {
    printf '# %s\n\n' "$2"
    printf '%s, on commit %s, %s, %s processors.\n\n' "$3" "$commit" "$(date -u +%F)" "$(nproc)"
    cat
  } >"docs/results/$1.md"
  echo "docs/results/$1.md"
}

gtest_totals() {  # folder of result files: "N passed, N failed, N skipped"
  cat "$1"/*.xml | awk '
    /<testsuites / { match($0, /tests="[0-9]+"/);    t += substr($0, RSTART + 7, RLENGTH - 8)
                     match($0, /failures="[0-9]+"/); f += substr($0, RSTART + 10, RLENGTH - 11) }
    /result="skipped"/ { s++ }
    END { printf "%d passed, %d failed, %d skipped", t - f - s, f, s }'
}

tsan() {
  QM_PRESET=tsan ./qm build --preset tsan core_tests
  rm -rf build/tsan/results && mkdir -p build/tsan/results
  local rc=0
  # Wrong uses do not stop a run, so that one run shows them all.
  TSAN_OPTIONS="halt_on_error=0 second_deadlock_stack=1 exitcode=66" RC_PARAMS=seed=20261121 \
    ctest --test-dir build/tsan -L '^core$' -j "$(nproc)" --timeout 1500 --output-on-failure >build/check-tsan.log 2>&1 || rc=$?
  {
    printf '%s binaries, %s; data races and lock inversions reported: %s.\n' "$(ls build/tsan/results | wc -l)" \
      "$(gtest_totals build/tsan/results)" "$(grep -c 'WARNING: ThreadSanitizer' build/check-tsan.log || true)"
    grep -hE '^SUMMARY: ThreadSanitizer' build/check-tsan.log | sed -E 's#/[^ ]*/(libs|services|fleet|tests|demo)/#\1/#' | sort | uniq -c |
      sort -rn | sed 's/^ */- /' || true
  } | record tsan "Thread sanitizer" "\`./qm check tsan\`: libraries and engines with -fsanitize=thread"
  return $rc
}

coverage() {  # [service]
  command -v gcovr >/dev/null || die "gcovr is missing: apt-get install -y gcovr"
  local of=${1:-} tests=core_tests filter='libs/|services/|fleet/|demo/' depth=2 only=()
  if [ -n "$of" ]; then
    [ -d "services/$of/src" ] || die "there is no service $of: name one of $(echo $(ls services))"
    QM_PRESET=coverage ./qm build --preset coverage help >/dev/null
    only=(-R "^$of")
    tests=$(ctest --test-dir build/coverage -N -L '^core$' "${only[@]}" |
      sed -nE 's/^ *Test *#[0-9]*: (.*_test)(_[0-3])?$/\1/p' | sort -u)
    filter="services/$of/src/" depth=4
  fi
  # shellcheck disable=SC2086
  QM_PRESET=coverage ./qm build --preset coverage $tests
  find build/coverage -name '*.gcda' -delete
  rm -rf build/coverage/results && mkdir -p build/coverage/results
  ctest --test-dir build/coverage -L '^core$' "${only[@]}" -j "$(nproc)" --timeout 1500 >build/check-coverage.log 2>&1 || true
  gcovr -j "$(nproc)" --root . --object-directory build/coverage --filter "$filter" \
    --exclude '.*/test/' --exclude 'build/' --csv build/coverage.csv >>build/check-coverage.log 2>&1
  {
    printf '%s.\n\n| folder | lines | of them run | branches | of them taken |\n| --- | ---: | ---: | ---: | ---: |\n' \
      "$(gtest_totals build/coverage/results)"
    awk -F, -v depth="$depth" 'NR > 1 { n = split($1, p, "/"); d = p[1]; for (i = 2; i <= depth && i < n; ++i) d = d "/" p[i]
        l[d] += $2; h[d] += $3; b[d] += $5; t[d] += $6 }
      END { for (d in l) if (l[d] > 0) printf("| `%s` | %d | %.1f %% | %d | %.1f %% |\n", d, l[d], 100 * h[d] / l[d], b[d],
              (b[d] > 0 ? 100 * t[d] / b[d] : 0)) }' build/coverage.csv | sort
  } | record "coverage${of:+-$of}" "Coverage${of:+ of $of}" "\`./qm check coverage${of:+ $of}\`: tests that need no server, no gRPC shells among them"
}

tidy() {
  ./qm tidy >build/check-tidy.log 2>&1 || true
  {
    printf '%s files; findings by check:\n\n' "$(git ls-files '*.cpp' | grep -vc _fuzz)"
    grep -oE '\[[a-z0-9.,-]+\]$' build/check-tidy.log | sort | uniq -c | sort -rn | sed 's/^ */- /' || true
  } | record tidy "clang-tidy" "\`./qm check tidy\`: the checks of .clang-tidy"
}

fuzz() {
  local rounds=${1:-50} rc=0
  ./qm build core_tests asan_tests
  tools/fuzz.sh "$rounds" | tee build/check-fuzz.log || rc=1
  tools/fuzz.sh "$rounds" --asan | tee build/check-fuzz-asan.log || rc=1
  printf -- '- as they ship: %s\n- under sanitizers: %s\n' "$(tail -1 build/check-fuzz.log)" "$(tail -1 build/check-fuzz-asan.log)" |
    record fuzz "Property tests with new seeds" "\`./qm check fuzz $rounds\`"
  return $rc
}

counts() {
  [ -d build/release/bin ] || die "the tests are not built: ./qm build tests peer_tests"
  {
    printf '| tests that need | binaries | cases |\n| --- | ---: | ---: |\n'
    local binary name label
    for binary in build/release/bin/*_test; do
      name=$(basename "$binary" _test)
      case $name in
        *_pg | *_redis | *_kafka | *_kube | *_k8s | *_moto | *_e2e) label=${name##*_} ;;
        *) label=nothing ;;
      esac
      printf '%s %s\n' "$label" "$("$binary" --gtest_list_tests | grep -c '^  ')"
    done | awk '{ b[$1]++; c[$1] += $2; cases += $2; n++ }
      END { for (k in b) printf "| %s | %d | %d |\n", k, b[k], c[k]; printf "| all | %d | %d |\n", n, cases }' | sort
    printf '\n| folder | lines of C++ | of its tests |\n| --- | ---: | ---: |\n'
    git ls-files '*.cpp' '*.hpp' | while read -r file; do
      printf '%s %s %s\n' "$(cut -d/ -f1 <<<"$file")" "$([[ $file == */test/* || $file == tests/* ]] && echo test || echo code)" \
        "$(grep -cvE '^[[:space:]]*(//.*)?$' "$file")"
    done | awk '{ if ($2 == "test") t[$1] += $3; else c[$1] += $3; d[$1] } END { for (k in d) printf "| `%s` | %d | %d |\n", k, c[k], t[k] }' | sort
  } | record counts "Counts" "\`./qm check counts\`: test cases, and lines that are neither empty nor comment"
}

# Builds in its own folder with an empty compiler cache and runs the tests under the sanitizers; the times of other
# tests are those of the last ./qm test.
minutes() {
  local build=build/minutes
  timed() {  # row; command
    local row=$1
    shift
    { time CCACHE_DISABLE=1 nice "$@" >build/minutes.log 2>&1; } 2>build/minutes-time.log || die "$* failed: see build/minutes.log"
    awk -v row="$row" '{ printf "| %s | %.1f min | %.1f min |\n", row, $1 / 60, ($2 + $3) / 60 }' build/minutes-time.log
  }
  rm -rf "$build"
  cmake --preset release -B "$build" >build/configure-minutes.log
  TIMEFORMAT='%R %U %S'
  {
    printf '| what | wall | processor |\n| --- | ---: | ---: |\n'
    timed 'build of `product`' ninja -C "$build" product
    timed 'build of `tests`, after it' ninja -C "$build" tests
    timed 'build of `asan_tests`, after both' ninja -C "$build" asan_tests
    timed 'run of the group asan' ctest --test-dir "$build" -L '^asan$' -j "$(nproc)"
    printf '\n## By target\n\n'
    tools/minutes.py targets "$build"
    printf '## Headers\n\n'
    tools/minutes.py headers "$build"
    printf '## Slowest tests\n\n'
    tools/minutes.py tests build/release
    printf '## Peers\n\nWhat `tools/peers` printed when it last built or started them:\n\n'
    grep -hE ' (built|serving|started) ' build/peer-*.log 2>/dev/null | sed 's/^/- /' || true
    printf '\n## Pauses\n\n'
    tools/minutes.py waits
  } | record minutes "Minutes of build and tests" "\`./qm check minutes\`"
}

case ${1:-} in
  tsan | tidy | counts | minutes) "$1" ;;
  coverage | fuzz) "$@" ;;
  *) sed -n '2,12s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
