#!/bin/bash
# A real Kubernetes control plane on loopback: etcd, kube-apiserver, controller-manager, scheduler, and kwok nodes.
#
#   tools/peers/kubernetes.sh get            build the programs with Go into build/peers/kubernetes/<hash>/bin
#                                            (7 min, once)
#   tools/peers/kubernetes.sh start          start the parts (get first if needed) and wait until they serve
#   tools/peers/kubernetes.sh stop           stop them cleanly
#   tools/peers/kubernetes.sh kill9 PART     kill one part at once: etcd, api, controllers, scheduler or kwok
#   tools/peers/kubernetes.sh restart PART   start one part again, running or not; "restart api" also its clients
#   tools/peers/kubernetes.sh nodes N [GPUS] create N Ready nodes of 8 or GPUS GPUs that kwok simulates
#   tools/peers/kubernetes.sh status         each part, running or not
#   tools/peers/kubernetes.sh env            print addresses, CA, tokens, KUBECONFIG and paths as export lines
#   tools/peers/kubernetes.sh clean          stop, and delete the cluster (the programs remain)
#
#   eval "$(tools/peers/kubernetes.sh env)" && "$QM_KUBECTL" get nodes && build/release/bin/contract_k8s_test
#
# Settings: QM_PEERS_DIR (default build/peers), QM_KUBE_RUN (run folder), QM_KUBE_PORT (first of six ports, default
# 26443): another folder and port create a second cluster. QM_KUBE_VERSION (default 1.36; 1.37 has its own programs, run
# folder and ports from 26453 on), QM_KUBE_PARTS (default all five), QM_KUBE_AUDIT=1 (audit.log in the run folder; with
# a path: its policy), and more flags in QM_KUBE_ARGS_ETCD, _API, _CONTROLLERS, _SCHEDULER, _KWOK.
#
# A pod on a kwok node runs until it is deleted, or for the seconds of its annotation
# fleet.quartermaster.dev/run-seconds, and ends with fleet.quartermaster.dev/exit-code, as on the simulated fleet.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd -P)
root=$(cd "$here/../.." && pwd -P)
module=$here/kubernetes
base=${QM_PEERS_DIR:-$root/build/peers}/kubernetes

say() { echo "kubernetes: $*" >&2; }
die() { say "$*"; exit 1; }

version_in() { sed -n 's/^\tk8s\.io\/kubernetes v//p' "$module/$1"; }  # module file

# Each version has its module file; go.mod is the default one.
module_file() {
  [ -n "${QM_KUBE_VERSION:-}" ] || { echo go.mod; return 0; }
  local file
  for file in go.mod go-1.37.mod; do
    [[ $(version_in $file) != "$QM_KUBE_VERSION".* ]] || { echo $file; return 0; }
  done
  die "there is no Kubernetes \"$QM_KUBE_VERSION\" here: QM_KUBE_VERSION and --version are 1.36 or 1.37"
}

# The settings of start apply until the next start: a restart of one part needs no settings.
settings=(QM_KUBE_VERSION QM_KUBE_PORT QM_KUBE_PARTS QM_KUBE_AUDIT QM_KUBE_ARGS_ETCD QM_KUBE_ARGS_API
  QM_KUBE_ARGS_CONTROLLERS QM_KUBE_ARGS_SCHEDULER QM_KUBE_ARGS_KWOK)

keep_settings() {
  local name
  for name in "${settings[@]}"; do printf '%s=%q\n' "$name" "${!name:-}"; done >"$run/settings"
}

# ---- programs ------------------------------------------------------------------------------------------------------

package_of() {
  case $1 in
    kcp) echo . ;;
    etcd) echo go.etcd.io/etcd/server/v3 ;;
    etcdctl) echo go.etcd.io/etcd/etcdctl/v3 ;;
    kwok) echo sigs.k8s.io/kwok/cmd/kwok ;;
    kubectl) echo k8s.io/kubernetes/cmd/kubectl ;;
    helm) echo helm.sh/helm/v3/cmd/helm ;;
    *) die "there is no program $1: kcp, etcd, etcdctl, kwok, kubectl or helm" ;;
  esac
}

need_go() {
  command -v go >/dev/null || PATH=$PATH:/usr/local/go/bin
  local found
  found=$(GOTOOLCHAIN=local go env GOVERSION 2>/dev/null || true)
  [ "$(printf '%s\n' go1.26 "${found:-go0}" | sort -V | head -1)" = go1.26 ] ||
    die "Go 1.26 or newer is missing (found: ${found:-none}): unpack https://go.dev/dl/go1.26.8.linux-amd64.tar.gz in /usr/local"
}

# Builds missing programs. A second caller waits for the first.
get() {
  local program missing=()
  for program in "$@"; do [ -x "$bin/$program" ] || missing+=("$program"); done
  [ ${#missing[@]} -gt 0 ] || return 0
  need_go
  mkdir -p "$bin"
  exec 9>"$base/lock"
  flock 9
  local version flags log=$base/$hash/build.log begin
  version=$(version_in "$file")
  # Without these the API server reports its version as v0.0.0-master. No debug information: it is a tenth of the
  # compile time.
  flags="-s -w -X k8s.io/component-base/version.gitVersion=v$version"
  flags+=" -X k8s.io/component-base/version.gitMajor=${version%%.*}"
  flags+=" -X k8s.io/component-base/version.gitMinor=$(cut -d. -f2 <<<"$version")"
  for program in "${missing[@]}"; do
    [ -x "$bin/$program" ] && continue
    say "building $program"
    begin=$SECONDS
    (cd "$module" && GOTOOLCHAIN=local CGO_ENABLED=0 GOFLAGS=-buildvcs=false \
      go build -modfile="$file" -trimpath -gcflags=all=-dwarf=false -ldflags "$flags" -o "$bin/.$program" "$(package_of "$program")") >"$log" 2>&1 9>&- ||
      { tail -5 "$log" >&2; die "$program could not be built: look above, whole in $log"; }
    mv "$bin/.$program" "$bin/$program"
    say "built $program in $((SECONDS - begin)) s"
  done
  exec 9>&-
}

# ---- keys ----------------------------------------------------------------------------------------------------------

sign() {  # name, subject, extension lines
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$1.key" -out "$1.csr" -subj "$2" 2>>openssl.log
  openssl x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 3650 -out "$1.crt" \
    -extfile <(printf '%s\n' "$3") 2>>openssl.log
}

keys() {
  mkdir -p "$run"
  cd "$run"
  run=$(pwd -P)
  [ -s kubeconfig ] && [ -s front-proxy.crt ] && return 0
  command -v openssl >/dev/null || die "openssl is missing: apt-get install openssl"
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ca.key -out ca.crt -days 3650 \
    -subj /CN=quartermaster-peer-ca 2>openssl.log || { tail -3 openssl.log >&2; die "openssl made no CA"; }
  sign api /CN=kube-apiserver "extendedKeyUsage=serverAuth
subjectAltName=IP:127.0.0.1,IP:10.0.0.1,DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc"
  sign admin "/O=system:masters/CN=admin" "extendedKeyUsage=clientAuth"
  sign front-proxy /CN=front-proxy "extendedKeyUsage=clientAuth"
  openssl genrsa -out service-accounts.key 2048 2>>openssl.log
  openssl rand -hex 16 >token
  openssl rand -hex 16 >user-token
  printf '%s,admin,admin-uid,"system:masters"\n%s,user,user-uid,"team-a"\n' "$(cat token)" "$(cat user-token)" >tokens.csv
  cat >audit-policy.yaml <<'YAML'
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
YAML
  cat >kubeconfig.new <<YAML
apiVersion: v1
kind: Config
current-context: token
contexts:
- name: token
  context: {cluster: peer, user: token}
- name: certificate
  context: {cluster: peer, user: certificate}
clusters:
- name: peer
  cluster: {server: "$api", certificate-authority: "$run/ca.crt"}
users:
- name: token
  user: {token: "$(cat token)"}
- name: certificate
  user: {client-certificate: "$run/admin.crt", client-key: "$run/admin.key"}
YAML
  chmod 600 ./*.key token user-token tokens.csv kubeconfig.new
  mv kubeconfig.new kubeconfig
}

# ---- processes -----------------------------------------------------------------------------------------------------

pid() { cat "$run/$1.pid" 2>/dev/null || echo 0; }

# A pid file may outlive its process: the pid is valid only while it is ours. A killed process holds its port until it
# is a zombie, and its command line is empty by then.
running() {
  local p
  p=$(pid "$1")
  [ "$p" -gt 0 ] && grep -qs '^State:[[:space:]]*[^ZX]' "/proc/$p/status" || return 1
  local line
  line=$(tr '\0' ' ' 2>/dev/null <"/proc/$p/cmdline") || return 1
  # The pid of a part that ended may belong to another program. A part just begun is still a copy of this shell.
  [ -z "$line" ] || [[ $line == *"$run/"* ]] || [ "$line" = "$(tr '\0' ' ' <"/proc/$$/cmdline")" ]
}

spawn() {  # part, port, command line
  local part=$1 at=$2
  shift 2
  running "$part" && return 0
  if (: <>"/dev/tcp/127.0.0.1/$at") 2>/dev/null; then die "$part: port $at is taken: choose others with QM_KUBE_PORT"; fi
  setsid "$@" >>"$run/$part.log" 2>&1 </dev/null 9>&- &
  echo $! >"$run/$part.pid"
}

call() {  # path, curl options
  local path=$1
  shift
  curl -fsS -m 5 --cacert "$run/ca.crt" -H "Authorization: Bearer $(cat "$run/token")" "$@" "$api$path" 2>/dev/null
}

# Waits for a condition, as long as its process lives.
await() {  # part, seconds, what, command line
  local part=$1 until=$((SECONDS + $2)) what=$3
  shift 3
  until "$@" >/dev/null 2>&1; do
    running "$part" || { tail -5 "$run/$part.log" >&2; die "$part ended: look above, whole in $run/$part.log"; }
    [ $SECONDS -lt "$until" ] || { tail -5 "$run/$part.log" >&2; die "$part: $what did not come; see $run/$part.log"; }
    sleep 0.1
  done
}

lease=/apis/coordination.k8s.io/v1/namespaces/kube-system/leases

begin() {  # spawns a part
  # shellcheck disable=SC2086,SC2054,SC2206
  case $1 in
    etcd)
      spawn etcd $((port + 1)) "$bin/etcd" --name peer --data-dir "$run/etcd" --listen-client-urls "$etcd" --advertise-client-urls "$etcd" \
        --listen-peer-urls "http://127.0.0.1:$((port + 2))" --initial-advertise-peer-urls "http://127.0.0.1:$((port + 2))" \
        --initial-cluster "peer=http://127.0.0.1:$((port + 2))" --quota-backend-bytes 4294967296 --log-level warn \
        ${QM_KUBE_ARGS_ETCD:-} ;;
    api)
      local audit=()
      case ${QM_KUBE_AUDIT:-} in
        '' | 0) ;;
        1) audit=(--audit-policy-file "$run/audit-policy.yaml" --audit-log-path "$run/audit.log") ;;
        *) audit=(--audit-policy-file "$QM_KUBE_AUDIT" --audit-log-path "$run/audit.log") ;;
      esac
      # Pods need their default ServiceAccount, which the controller-manager creates.
      local lacks=()
      [[ " $parts " == *" controllers "* ]] || lacks=(--disable-admission-plugins=ServiceAccount)
      # The aggregation layer, for peers that serve an API (APIService).
      local proxy=(--proxy-client-cert-file="$run/front-proxy.crt" --proxy-client-key-file="$run/front-proxy.key"
        --requestheader-client-ca-file="$run/ca.crt" --requestheader-allowed-names=front-proxy
        --requestheader-username-headers=X-Remote-User --requestheader-group-headers=X-Remote-Group
        --requestheader-extra-headers-prefix=X-Remote-Extra-)
      spawn api "$port" "$bin/kcp" kube-apiserver --etcd-servers="$etcd" --bind-address=127.0.0.1 --advertise-address=127.0.0.1 \
        --secure-port="$port" --tls-cert-file="$run/api.crt" --tls-private-key-file="$run/api.key" \
        --client-ca-file="$run/ca.crt" --token-auth-file="$run/tokens.csv" --authorization-mode=Node,RBAC \
        --service-cluster-ip-range=10.0.0.0/16 --endpoint-reconciler-type=none --allow-privileged=true \
        --service-account-issuer=https://kubernetes.default.svc --service-account-key-file="$run/service-accounts.key" \
        --service-account-signing-key-file="$run/service-accounts.key" --shutdown-watch-termination-grace-period=2s "${proxy[@]}" \
        "${lacks[@]}" "${audit[@]}" ${QM_KUBE_ARGS_API:-} ;;
    controllers | scheduler)
      local name=kube-scheduler at=$((port + 4)) more=()
      if [ "$1" = controllers ]; then
        name=kube-controller-manager at=$((port + 3))
        more=(--service-account-private-key-file="$run/service-accounts.key" --use-service-account-credentials
          --root-ca-file="$run/ca.crt" --cluster-signing-cert-file="$run/ca.crt" --cluster-signing-key-file="$run/ca.key")
        more+=(--node-monitor-grace-period=1h ${QM_KUBE_ARGS_CONTROLLERS:-})  # kwok's nodes hold no leases: see below
      else
        more+=(${QM_KUBE_ARGS_SCHEDULER:-})
      fi
      # The long lease outlives a restart of the API server; the lease of a killed holder is deleted here.
      running "$1" || call "$lease/$name" -X DELETE >/dev/null || true
      spawn "$1" "$at" "$bin/kcp" "$name" --kubeconfig="$run/kubeconfig" --authentication-kubeconfig="$run/kubeconfig" \
        --authorization-kubeconfig="$run/kubeconfig" --bind-address=127.0.0.1 --secure-port="$at" \
        --cert-dir="$run/$1-certs" --leader-elect-lease-duration=60s --leader-elect-renew-deadline=40s "${more[@]}" ;;
    kwok)
      # No leases: with leases kwok skips pods of a node whose lease its own watch has not delivered yet, and a pod
      # bound that early is never processed.
      spawn kwok $((port + 5)) "$bin/kwok" --config "$module/stages.yaml" --kubeconfig "$run/kubeconfig" --manage-all-nodes=false \
        --manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake --node-lease-duration-seconds 0 \
        --server-address "127.0.0.1:$((port + 5))" ${QM_KUBE_ARGS_KWOK:-} ;;
    *) die "there is no part $1: etcd, api, controllers, scheduler or kwok" ;;
  esac
}

ready() {  # waits until a part serves
  case $1 in
    etcd) await etcd 60 "its health" curl -fsS -m 5 "$etcd/health" ;;
    api) await api 120 readiness call /readyz ;;
    controllers)
      await controllers 60 "its lease" call "$lease/kube-controller-manager"
      await controllers 60 "the default ServiceAccount" call /api/v1/namespaces/default/serviceaccounts/default ;;
    scheduler) await scheduler 60 "its lease" call "$lease/kube-scheduler" ;;
    kwok) await kwok 60 "its health" curl -fsS -m 5 "http://127.0.0.1:$((port + 5))/healthz" ;;
  esac
}

wants() { [[ " $parts " == *" $1 "* ]]; }

start() {
  get kcp etcd etcdctl kwok kubectl
  command -v curl >/dev/null || die "curl is missing: apt-get install curl"
  keys
  keep_settings
  local part
  for part in etcd api; do
    ! wants "$part" || { begin "$part"; ready "$part"; }
  done
  for part in controllers scheduler kwok; do ! wants "$part" || begin "$part"; done
  for part in controllers scheduler kwok; do ! wants "$part" || ready "$part"; done
  say "serving at $api"
}

end_with() {  # signal, part
  local p
  p=$(pid "$2")
  if running "$2"; then
    kill "-$1" "$p"
    local until=$((SECONDS + 60))
    while running "$2"; do
      [ $SECONDS -lt $until ] || { say "$2 does not end by itself"; kill -KILL "$p"; until=$((SECONDS + 60)); }
      sleep 0.05
    done
  fi
  rm -f "$run/$2.pid"
}

stop() {
  local part
  for part in kwok scheduler controllers; do running "$part" && kill -TERM "$(pid "$part")"; done
  for part in kwok scheduler controllers api etcd; do end_with TERM "$part"; done
}

restart() {
  local part followers=()
  [ -s "$run/kubeconfig" ] || die "not started: tools/peers/kubernetes.sh start"
  end_with TERM "$1"
  # Clients of the API server retry at increasing intervals while it is down, and finally give up.
  if [ "$1" = api ]; then
    for part in controllers scheduler kwok; do
      [ "$(pid "$part")" = 0 ] || { followers+=("$part"); end_with KILL "$part"; }
    done
  fi
  begin "$1"
  ready "$1"
  for part in "${followers[@]}"; do begin "$part"; done
  for part in "${followers[@]}"; do ready "$part"; done
}

nodes() {  # count, GPUs of each
  local i
  {
    printf '{"apiVersion":"v1","kind":"List","items":['
    for ((i = 0; i < $1; ++i)); do
      [ "$i" = 0 ] || printf ','
      printf '{"apiVersion":"v1","kind":"Node","metadata":{"name":"fake-%04d","annotations":{"kwok.x-k8s.io/node":"fake"},' "$i"
      printf '"labels":{"kubernetes.io/hostname":"fake-%04d","kubernetes.io/os":"linux","kubernetes.io/arch":"amd64"}},' "$i"
      printf '"status":{"capacity":{"cpu":"96","memory":"1Ti","pods":"110","nvidia.com/gpu":"%s"},' "$2"
      printf '"allocatable":{"cpu":"96","memory":"1Ti","pods":"110","nvidia.com/gpu":"%s"}}}' "$2"
    done
    printf ']}'
  } | "$bin/kubectl" --kubeconfig "$run/kubeconfig" create -f - >/dev/null
  "$bin/kubectl" --kubeconfig "$run/kubeconfig" wait --for=condition=Ready --timeout=120s nodes --all >/dev/null
}

environment() {
  running api || die "not running: tools/peers/kubernetes.sh start"
  local controllers=0
  running controllers && running kwok && controllers=1
  cat <<ENV
export QM_KUBE_URL=$api
export QM_KUBE_CA=$run/ca.crt
export QM_KUBE_TOKEN=$(cat "$run/token")
export QM_KUBE_USER_TOKEN=$(cat "$run/user-token")
export QM_KUBE_CONTROLLERS=$controllers
export QM_KUBE_ETCD=$etcd
export QM_KUBE_RUN=$run
export QM_KUBE_PORT=$port
export QM_KUBE_PEER=$here/kubernetes.sh
export QM_KUBECTL=$bin/kubectl
export QM_ETCDCTL=$bin/etcdctl
export KUBECONFIG=$run/kubeconfig
ENV
}

verb=${1:-}
[ $# -gt 0 ] && shift
file=$(module_file) || exit 1
run=${QM_KUBE_RUN:-$base/run$(sed 's/^go//; s/\.mod$//' <<<"$file")}
[ ! -d "$run" ] || run=$(cd "$run" && pwd -P)
case $verb in
  start | get | have | where) ;;
  *)
    # shellcheck disable=SC1091
    [ ! -s "$run/settings" ] || . "$run/settings"
    file=$(module_file) || exit 1 ;;
esac
hash=$(cat "$module/$file" "$module/${file%.mod}.sum" "$module/main.go" | sha256sum | cut -c1-16)
bin=$base/$hash/bin
# A second version has other ports, so that both can run.
if [ "$file" = go.mod ]; then port=26443; else port=26453; fi
port=${QM_KUBE_PORT:-$port}
parts=${QM_KUBE_PARTS:-etcd api controllers scheduler kwok}
etcd=http://127.0.0.1:$((port + 1))
api=https://127.0.0.1:$port
case $verb in
  get)
    [ $# -gt 0 ] || set -- kcp etcd etcdctl kwok kubectl
    get "$@"
    say "built: $* in $bin" ;;
  start) start ;;
  stop) stop ;;
  kill9 | restart)
    case ${1:-} in etcd | api | controllers | scheduler | kwok) ;; *) die "$verb: name etcd, api, controllers, scheduler or kwok" ;; esac
    if [ "$verb" = kill9 ]; then end_with KILL "$1"; else restart "$1"; fi ;;
  nodes) nodes "${1:?say how many}" "${2:-8}" ;;
  status)
    code=0
    for part in $parts; do
      if running "$part"; then echo "$part: running, pid $(pid "$part")"; else echo "$part: not running"; code=1; fi
    done
    exit $code ;;
  env) environment ;;
  have) for program in kcp etcd etcdctl kwok kubectl; do [ -x "$bin/$program" ] || exit 1; done ;;
  where) package_of "${1:-kcp}" >/dev/null; echo "$bin/${1:-kcp}" ;;
  clean) stop; rm -rf "$run" ;;
  *) sed -n '2,22s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
