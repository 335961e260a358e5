#!/usr/bin/env bash
# Runs the test groups of tests/budget.csv, prints planned and used minutes of each, and the totals. Called by ./qm
# test.
#
#   (nothing)        every group except the heavy peers and the sanitizers
#   --all            every group: used by .ci/run
#   --peers          the groups that need a real Kubernetes or containers, after building those
#   --group NAME     this group only; may be repeated
#   --filter REGEX   only the binaries that ctest -R selects
#
# Groups run in three lanes, one after the other in each. Suites that are started, killed and timed are in the first;
# contracts with one server, which mostly wait, run at the same time in the second; CPU-bound groups run in the
# background at the lowest priority: programs in Go, the unit tests' build and run, the sanitizers. Each group writes
# its result to build/groups/NAME.
set -uo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
# Property tests draw the same cases in every run, so that a failure can be repeated; ./qm fuzz draws new ones.
export RC_PARAMS=${RC_PARAMS:-seed=20261121}
B=build/release
RESULTS=build/groups
WANTED=() FILTER='' MODE=default
while [ $# -gt 0 ]; do
  case $1 in
    --all) MODE=all; shift ;;
    --peers) MODE=peers; shift ;;
    --group) MODE=groups; WANTED+=("$2"); shift 2 ;;
    --filter) FILTER=$2; shift 2 ;;
    *) echo "qm test: unknown option $1: --all, --peers, --group NAME or --filter REGEX" >&2; exit 2 ;;
  esac
done

FRONT=(product waiting peers pg e2e) SIDE=(redis kube moto kafka) BACK=(programs tests unit)
case $MODE in
  all) FRONT+=(kubernetes k8s); BACK+=(asan) ;;
  peers) FRONT=(product programs kubernetes k8s containers); SIDE=() BACK=() ;;
  groups) FRONT=("${WANTED[@]}"); SIDE=() BACK=() ;;
esac

# ---- results of a group --------------------------------------------------------------------------------------------

of_group() { echo "$RESULTS/$1"; }
plan_of() { awk -F, -v g="$1" '$1 == g { print $2 }' tests/budget.csv; }
text_of() { awk -F, -v g="$1" '$1 == g { print $3 }' tests/budget.csv; }

failures() { sed -n 's/.*<testcase name="\([^"]*\)".*status="\(fail\|notrun\)".*/\1/p' "$1"; }

# The output of a failed binary: each failure with the lines after it.
why() {  # test, ctest log
  echo "-- $1, of $2"
  awk -v name="$1" '$0 ~ "Test +#[0-9]+: " name " .*Failed" { on = 1; next } / Test +#[0-9]+: / { on = 0 } on' "$2" |
    grep -A7 -E ': Failure$|^\[  FAILED  \] .*\(|ERROR: |runtime error|what\(\)|terminate|Assertion|assertion' |
    grep -vE '^(--|\[ +(OK|RUN) .*|)$' | cut -c1-300 | head -40
}

# Adds up the gtest result files of the binaries that ran; a binary that failed without a file counts once.
count() {  # group, folder, ctest junit file, ctest log
  local dir name files=() ok bad left
  dir=$(of_group "$1")
  for name in $(sed -n 's/.*<testcase name="\([^"]*\)".*/\1/p' "$3"); do
    [ -s "$2/results/$name.xml" ] && files+=("$2/results/$name.xml")
  done
  read -r ok bad left < <(cat "${files[@]}" /dev/null | awk '
    /<testsuite / { match($0,/tests="[0-9]+"/);    t+=substr($0,RSTART+7,RLENGTH-8)
                    match($0,/failures="[0-9]+"/); f+=substr($0,RSTART+10,RLENGTH-11)
                    if (match($0,/disabled="[0-9]+"/)) d+=substr($0,RSTART+10,RLENGTH-11)
                    if (match($0,/skipped="[0-9]+"/))  s+=substr($0,RSTART+9,RLENGTH-10) }
    END { print t-f-s-d+0, f+0, s+d+0 }')
  for name in $(failures "$3"); do
    echo "$name" >>"$dir/broken"
    why "$name" "$4" >>"$dir/failures"
    [ -s "$2/results/$name.xml" ] || bad=$((bad + 1))
  done
  echo "$ok $bad $left" >"$dir/counts"
  cat "${files[@]}" /dev/null | grep -oE '<skipped message="[^"]*"' |
    sed -E 's/<skipped message="//; s/"$//; s/^[^ ]*:[0-9]+&#x0A;//; s/&#x0A;/ /g; s/^/skipped: /' | cut -c1-160 | sort | uniq -c | sort -rn
}

tests() {  # group and label, folder, parallel
  local log=build/ctest-$1.log junit=$PWD/build/ctest-$1.xml name
  mkdir -p "$2/results"
  for name in $(ctest --test-dir "$2" -N -L "^$1\$" | sed -n 's/^ *Test *#[0-9]*: //p'); do rm -f "$2/results/$name.xml"; done
  local args=(--test-dir "$2" -L "^$1\$" -j "$3" --output-junit "$junit" --timeout 1500)
  [ -n "$FILTER" ] && args+=(-R "$FILTER")
  # JUnit escapes make output unreadable: failing output is shown unchanged.
  ctest "${args[@]}" --output-on-failure >"$log" 2>&1
  grep -E '\*\*\*|FAILED|Failure|tests passed|No tests' "$log" | head -60
  count "$1" "$2" "$junit" "$log"
  return 0   # failures are counted; a grep without matches is not a failure
}

# ---- groups --------------------------------------------------------------------------------------------------------

# Exported, because the tests call tools/peers/kafka.sh too.
contract_kafka() {
  export QM_KAFKA_RUN=$PWD/build/peers/kafka/contract QM_KAFKA_PORT=19192
  tools/peers/kafka.sh "$@"
}
# With an audit log: a test compares the chart's RBAC rules with their use. The run folder and port belong to the tests.
kubernetes() { QM_KUBE_AUDIT=1 QM_KUBE_RUN=$PWD/build/peers/kubernetes/test QM_KUBE_PORT=26543 tools/peers/kubernetes.sh "$@"; }
stop_kubernetes() { [ ! -f build/peers/kubernetes.env ] || kubernetes clean; rm -f build/peers/kubernetes.env; }

get() {  # peer: gets it and writes its environment, or prints why it is missing; its tests are then skipped
  local log=build/peer-$1.log
  if tools/peers/"$1".sh get >"$log" 2>&1; then
    return 0
  fi
  echo "no $1:"; tail -2 "$log"
  rm -f "build/peers/$1.env"
  return 1
}
environment_of() { tools/peers/"$1".sh env >"build/peers/$1.env" 2>/dev/null || rm -f "build/peers/$1.env"; }

heavy() { [ "$MODE" = all ] || [ "$MODE" = peers ]; }

step() {
  local p
  case $1 in
    product) ./qm build product ;;
    waiting) # Benches that are not built do not compile for long.
      if heavy; then ./qm build waiting_tests peer_tests; else ./qm build waiting_tests; fi ;;
    tests) ./qm build tests benches ;;
    unit) tests unit "$B" "$(nproc)" ;;
    pg|redis|e2e|kube|moto) tests "$1" "$B" 1 ;;
    kafka) # On a separate broker: these tests kill and freeze it while the front lane uses the shared one.
      if [ -f build/peers/kafka.env ]; then
        contract_kafka start && { set -a; eval "$(contract_kafka env)"; set +a; } || return 1
      fi
      tests kafka "$B" 1; contract_kafka clean ;;
    peers)
      for p in pyclient grafana promtool; do get $p && environment_of $p; done
      for p in kafka moto; do
        get $p && { tools/peers/$p.sh start >>"build/peer-$p.log" 2>&1 || { echo "$p did not start:"; tail -2 "build/peer-$p.log"; }; } && environment_of $p
      done ;;
    programs) # Programs that are built with Go, and a browser.
      if heavy || tools/peers/kubernetes.sh have; then get kubernetes && get helm && environment_of helm; fi
      for p in opa chromium; do get $p && environment_of $p; done
      return 0 ;;
    kubernetes) # One cluster for all groups that need it, separate from one that a person has started.
      await programs
      if heavy || tools/peers/kubernetes.sh have; then
        kubernetes start && kubernetes env >build/peers/kubernetes.env && return 0
        rm -f build/peers/kubernetes.env
        return 1
      fi
      echo "no Kubernetes: ./qm peers kubernetes builds it" ;;
    k8s) # In a whole run they are built by then, and the background may be building others.
      [ "$MODE" = all ] || ./qm build product peer_tests || return 1
      tests k8s "$B" 1; stop_kubernetes ;;
    containers)
      tools/peers/containers.sh get && tools/peers/containers.sh env >build/peers/containers.env && ./qm build product images_e2e_test &&
        { set -a; . build/peers/containers.env; set +a; tests containers "$B" 1; } ;;
    asan) ./qm build asan_tests && tests asan "$B" "$(nproc)" ;;
    *) echo "unknown group $1: tests/budget.csv lists them"; return 1 ;;
  esac
}

# Runs one group with the environment of the available peers, and writes its result.
group() {
  local dir begin=$SECONDS env
  dir=$(of_group "$1")
  for env in build/peers/*.env; do [ -f "$env" ] && { set -a; . "$env"; set +a; }; done
  step "$1" || { echo "$1" >>"$dir/broken"; read -r p f s < <(cat "$dir/counts" 2>/dev/null || echo 0 0 0); echo "$p $((f + 1)) $s" >"$dir/counts"; }
  echo $((SECONDS - begin)) >"$dir/seconds"
}

lanes=()  # process groups, each its own session

# Waits until a group of another lane has ended, or that lane has.
await() {
  [[ " ${FRONT[*]} ${SIDE[*]} ${BACK[*]} " == *" $1 "* ]] || return 0
  until [ -f "$(of_group "$1")/seconds" ] || { [ ${#lanes[@]} -gt 0 ] && ! kill -0 "${lanes[@]}" 2>/dev/null; }; do sleep 0.2; done
}

# Runs groups one after the other and prints the final output of each.
run_lane() {  # where; groups
  local where=$1 g
  shift
  # If the kernel shares CPU time by session, the session's own weight must be lowered too.
  [ "$where" = background ] && { echo 19 >/proc/self/autogroup; } 2>/dev/null
  for g in "$@"; do
    case $g in
      programs) ;;
      tests) await waiting ;;  # two ninjas in one folder would overwrite each other's logs
      *) await peers ;;
    esac
    printf '== %s: %s (planned %s min, %s)\n' "$g" "$(text_of "$g")" "$(plan_of "$g")" "$where"
    group "$g" >"$(of_group "$g")/out" 2>&1
    { printf '== %s ended after %s\n' "$g" "$(minutes "$(of_group "$g")")"; cat "$(of_group "$g")/out"; }
  done
}

start_lane() {  # where, nice; groups
  local where=$1 step_back=$2
  shift 2
  [ $# -gt 0 ] || return 0
  # A separate session, so that all of it can be stopped and has one priority.
  setsid nice -n "$step_back" bash -c "$(declare -f)
    $(declare -p FRONT SIDE BACK MODE FILTER B RESULTS); lanes=()
    run_lane '$where' $*" </dev/null &
  lanes+=($!)
}

minutes() { awk '{ printf "%.1f min", $1 / 60 }' "$1/seconds"; }

# ---- the run -------------------------------------------------------------------------------------------------------

rm -rf "$RESULTS" && mkdir -p build/peers
rm -f build/peers/kubernetes.env
for g in "${FRONT[@]}" "${SIDE[@]}" "${BACK[@]}"; do mkdir -p "$(of_group "$g")"; done

cleanup() {
  local p
  for p in "${lanes[@]}"; do kill -TERM -- "-$p" 2>/dev/null; wait "$p" 2>/dev/null; done
  stop_kubernetes >/dev/null 2>&1
  (contract_kafka clean) >/dev/null 2>&1
  for p in kafka moto; do
    [ -f "build/peers/$p.env" ] && { tools/peers/$p.sh stop >/dev/null 2>&1; rm -f "build/peers/$p.env"; }
  done
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# Named groups of test binaries are built here; in a whole run the groups waiting and tests build them.
if [ $MODE = groups ]; then
  case " ${WANTED[*]} " in
    *" tests "*) ;;
    *" unit "* | *" pg "* | *" redis "* | *" e2e "* | *" kube "* | *" moto "* | *" kafka "*) ./qm build tests || exit 1 ;;
  esac
fi

for g in "${FRONT[@]}"; do
  printf '== %s: %s (planned %s min)\n' "$g" "$(text_of "$g")" "$(plan_of "$g")"
  group "$g"
  if [ "$g" = product ]; then
    start_lane background 19 "${BACK[@]}"
    start_lane 'at the side' 0 "${SIDE[@]}"
  fi
done
for p in "${lanes[@]}"; do wait "$p"; done
lanes=()

# ---- results ---------------------------------------------------------------------------------------------------------

echo
passed=0 failed=0 skipped=0 over=()
for g in "${FRONT[@]}" "${SIDE[@]}" "${BACK[@]}"; do
  dir=$(of_group "$g")
  seconds=$(cat "$dir/seconds" 2>/dev/null || echo 0)
  read -r ok bad left < <(cat "$dir/counts" 2>/dev/null || echo 0 0 0)
  if [ ! -f "$dir/seconds" ]; then bad=$((bad + 1)); echo "$g" >>"$dir/broken"; fi  # ended before its end
  passed=$((passed + ok)) failed=$((failed + bad)) skipped=$((skipped + left))
  printf '%-10s planned %4s min, used %5s: %4d passed, %d failed, %d skipped\n' "$g" "$(plan_of "$g")" \
    "$(awk -v s="$seconds" 'BEGIN { printf "%.1f", s / 60 }')" "$ok" "$bad" "$left"
  awk -v s="$seconds" -v m="$(plan_of "$g")" 'BEGIN { exit !(s > 90 * m) }' && over+=("$g")
done
awk -F, 'NR > 1 && match($0, /,(works|partial|open|interoperates),/) { n[substr($0, RSTART + 1, RLENGTH - 2)]++ }
  END { printf "coverage of the 498 requirements: works %d, partial %d, open %d, interoperates %d\n", n["works"], n["partial"], n["open"], n["interoperates"] }' docs/coverage.csv
cat "$RESULTS"/*/failures 2>/dev/null
sed 's/^/broken: /' "$RESULTS"/*/broken 2>/dev/null
[ ${#over[@]} -eq 0 ] || echo "over their plan by more than half: ${over[*]} (tests/budget.csv)"
printf 'all of it: %d min %d s\n' $((SECONDS / 60)) $((SECONDS % 60))
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
