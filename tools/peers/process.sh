# Functions of the peers that are programs in Go and run as processes on the control plane of
# tools/peers/kubernetes.sh: kueue.sh, karpenter.sh and keda.sh read this file.
#
# Needs     peer (the name in messages and of QM_<PEER>_RUN and QM_<PEER>_PORT) and version, set before.
# Sets      here, root, home (programs and their version), run (run folder of one control plane).
# shellcheck shell=bash disable=SC2034,SC2154

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
root=$(cd "$here/../.." && pwd -P)
home=${QM_PEERS_DIR:-$root/build/peers}/$peer
run=QM_${peer^^}_RUN
run=${!run:-$home/run}

say() { echo "$peer: $*" >&2; }
die() { say "$*"; exit 1; }

need_go() {
  command -v go >/dev/null || PATH=$PATH:/usr/local/go/bin
  command -v go >/dev/null || die "Go is missing, of 1.26 or newer: put it in /usr/local/go"
}

# The folder of a Go module's sources, after downloading them.
module() {  # path@version
  need_go
  go mod download -json "$1" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p'
}

have() {  # programs of this version
  [ "$(cat "$home/version" 2>/dev/null)" = "$version" ] || return 1
  local program
  for program in "$@"; do [ -x "$home/$program" ] || return 1; done
}

go_build() { CGO_ENABLED=0 GOFLAGS=-buildvcs=false nice go "$1" -ldflags="-s -w" "${@:2}"; }

kubectl() { "$run/kubectl" --kubeconfig "$run/kubeconfig" "$@"; }

# Creates a namespace, and definitions; ends when all are established.
prepare() {  # namespace, files or folders of definitions
  kubectl create namespace "$1" --dry-run=client -o yaml | kubectl apply -f - >/dev/null
  local file args=()
  for file in "${@:2}"; do args+=(-f "$file"); done
  kubectl apply --server-side --force-conflicts "${args[@]}" -o name >"$run/definitions"
  # "kubectl wait" fails on a definition that has no conditions yet.
  local name until=$((SECONDS + 60))
  while read -r name; do
    until [ "$(kubectl get "$name" -o 'jsonpath={.status.conditions[?(@.type=="Established")].status}')" = True ]; do
      [ $SECONDS -lt $until ] || die "$name is not established after 60 s: is the control plane overloaded?"
      sleep 0.2
    done
  done <"$run/definitions"
}

# A CA, and a certificate of it for servers and clients, once for a run folder.
certificates() {  # subject alternative names
  [ -s "$run/certs/tls.crt" ] && return 0
  command -v openssl >/dev/null || die "openssl is missing: apt-get install openssl"
  mkdir -p "$run/certs"
  (
    cd "$run/certs"
    openssl req -x509 -newkey rsa:2048 -nodes -days 365 -subj "/CN=$peer-ca" -keyout ca.key -out ca.crt
    openssl req -newkey rsa:2048 -nodes -subj "/CN=$peer" -keyout tls.key -out tls.csr
    openssl x509 -req -in tls.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 365 -out tls.new \
      -extfile <(printf 'subjectAltName=%s\nextendedKeyUsage=serverAuth,clientAuth\n' "$1")
    mv tls.new tls.crt
  ) 2>"$run/openssl.log" || { tail -3 "$run/openssl.log" >&2; die "openssl made no certificates: see $run/openssl.log"; }
}

# ---- processes -----------------------------------------------------------------------------------------------------

# A pid file may outlive its process: the pid is valid only while its program is ours.
running() {  # program
  local pid
  pid=$(cat "$run/$1.pid" 2>/dev/null) && [ "/proc/$pid/exe" -ef "$home/$1" ]
}

# Connects the run folder to the control plane. True if the programs run already; ends with a message if there is no
# control plane, or if they run on another one.
attach() {  # programs
  local environment program
  environment=$("$here/kubernetes.sh" env) || die "needs a control plane that runs: ./qm peers kubernetes start"
  eval "$environment"
  mkdir -p "$run"
  for program in "$@"; do
    if running "$program" && ! cmp -s "$KUBECONFIG" "$run/kubeconfig"; then
      die "$program already runs on another control plane,$(sed -n 's/.*{server: "\(.*\)", .*/ \1/p' "$run/kubeconfig"): stop it, or choose another run folder and ports with QM_${peer^^}_RUN and QM_${peer^^}_PORT"
    fi
  done
  install -m 600 "$KUBECONFIG" "$run/kubeconfig"
  ln -sfn "$QM_KUBECTL" "$run/kubectl"
  for program in "$@"; do running "$program" || return 1; done
}

spawn() {  # program, port, arguments
  local program=$1 at=$2 i
  shift 2
  if (: <>"/dev/tcp/127.0.0.1/$at") 2>/dev/null; then die "$program: port $at is taken: choose others with QM_${peer^^}_PORT"; fi
  KUBECONFIG=$run/kubeconfig setsid "$home/$program" "$@" >"$run/$program.log" 2>&1 </dev/null &
  echo $! >"$run/$program.pid"
  # Until then the process is still a copy of this shell.
  for ((i = 0; i < 100; i++)); do running "$program" && return 0; sleep 0.02; done
}

await() {  # program, what, command line: waits 60 s for it, as long as the program runs
  local program=$1 what=$2 until=$((SECONDS + 60))
  shift 2
  until "$@" >/dev/null 2>&1; do
    running "$program" || { tail -5 "$run/$program.log" >&2; die "$program has ended, see $run/$program.log"; }
    [ $SECONDS -lt $until ] || { tail -5 "$run/$program.log" >&2; die "$program: no $what after 60 s, see $run/$program.log"; }
    sleep 0.2
  done
}

# SIGTERM, and SIGKILL if it runs a minute later: it may first finish requests to a server that is gone.
end() {  # program
  local pid until=$((SECONDS + 60))
  if running "$1"; then
    pid=$(cat "$run/$1.pid")
    kill -TERM "$pid" 2>/dev/null || true
    while running "$1"; do
      if [ $SECONDS -ge $until ]; then
        say "$1 runs 60 s after SIGTERM, and is killed"
        kill -KILL "$pid" 2>/dev/null || true
        until=$((SECONDS + 60))
      fi
      sleep 0.1
    done
  fi
  rm -f "$run/$1.pid"
}

environment() {  # programs: the line for the tests while they run
  local program
  for program in "$@"; do running "$program" || die "does not run: tools/peers/$peer.sh start"; done
  echo "export QM_${peer^^}=1"
}
