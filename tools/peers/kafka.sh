#!/bin/bash
# One Kafka broker (KRaft, no ZooKeeper) on loopback, for tests and benches.
#
#   tools/peers/kafka.sh get      fetch the jars through Maven into build/peers/kafka/<hash of the pom>
#   tools/peers/kafka.sh start    start the broker (get first if needed) and wait until it serves
#   tools/peers/kafka.sh stop     stop it cleanly       kill9   kill it at once, keeping its data
#   tools/peers/kafka.sh status   running or not        env     print "export QM_KAFKA=host:port"
#   tools/peers/kafka.sh clean    stop, and delete the data (the jars remain)
#   tools/peers/kafka.sh tool CLASS ...   one of Kafka's own programs against this broker, such as
#                                         org.apache.kafka.tools.TopicCommand --list
#
#   eval "$(tools/peers/kafka.sh env)" && build/release/bin/bus_contract_kafka_test
#
# A second listener uses TLS and requires a client certificate: QM_KAFKA_TLS=host:port, and QM_KAFKA_TLS_DIR, a folder
# with ca.crt and NAME.crt, NAME.key of quartermaster-admission, -placement and -none.
#
# Settings: QM_PEERS_DIR (default build/peers), QM_KAFKA_RUN (run folder), QM_KAFKA_PORT (client port; the controller
# takes the next one, TLS the one after that), QM_KAFKA_HEAP (default 384m).
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd -P)
root=$(cd "$here/../.." && pwd -P)
pom="$here/kafka-pom.xml"
hash=$(sha256sum "$pom" | cut -c1-16)
base=${QM_PEERS_DIR:-$root/build/peers}/kafka
home=$base/$hash
run=${QM_KAFKA_RUN:-$base/run}
port=${QM_KAFKA_PORT:-19092}
heap=${QM_KAFKA_HEAP:-384m}

say() { echo "kafka: $*" >&2; }
die() { say "$*"; exit 1; }

need() {
  command -v "$1" >/dev/null || die "$1 is missing: install $2 (Debian: apt-get install $2)"
}

pid() { cat "$run/pid" 2>/dev/null || echo 0; }

# A pid file may outlive its process: the pid is valid only while it is our broker.
running() {
  local p
  p=$(pid)
  [ "$p" -gt 0 ] && tr '\0' ' ' <"/proc/$p/cmdline" 2>/dev/null | grep -q "kafka.Kafka $run/broker.properties"
}

# Runs in the caller's shell or by exec, never as a function in the background: the pid must be that of java.
java_line() {
  java=(java -Xms64m "-Xmx$heap" -XX:+UseSerialGC -XX:TieredStopAtLevel=1
    "-Dlog4j2.configurationFile=$run/$1" -cp "$home/libs/*")
}

get() {
  [ -e "$home/done" ] && return 0
  need java default-jre-headless
  need mvn maven
  mkdir -p "$home"
  say "fetching the jars (about 45 MB, once)"
  (cd "$home" && mvn -q -B -f "$pom" org.apache.maven.plugins:maven-dependency-plugin:copy-dependencies \
    "-DoutputDirectory=$home/libs" -DincludeScope=runtime) ||
    die "Maven could not fetch the jars: look above; a mirror goes into ~/.m2/settings.xml"
  touch "$home/done"
}

# A CA, and a certificate of each principal that tests use. They are reused, because clients have copies.
certificates() {
  need openssl openssl
  mkdir -p "$run/tls"
  cd "$run/tls"
  [ -e ca.crt ] || openssl req -x509 -newkey rsa:2048 -nodes -days 365 -subj /CN=kafka-test-ca -keyout ca.key -out ca.crt 2>/dev/null
  local name
  for name in broker quartermaster-admission quartermaster-placement quartermaster-none; do
    [ -e "$name.crt" ] && continue
    openssl req -newkey rsa:2048 -nodes -subj "/CN=$name" -keyout "$name.key" -out "$name.csr" 2>/dev/null
    openssl x509 -req -in "$name.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 365 \
      -extfile <(printf 'subjectAltName=IP:127.0.0.1,DNS:localhost') -out "$name.crt" 2>/dev/null
  done
  cat broker.key broker.crt ca.crt >broker.pem
  cd - >/dev/null
}

configure() {
  mkdir -p "$run"
  certificates
  cat >"$run/log.properties" <<PROPERTIES
rootLogger.level = INFO
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss.SSS} %p %c{1} %m%n
PROPERTIES
  echo "rootLogger.level = OFF" >"$run/quiet.properties"
  # One node: internal topics must not request more replicas than there are brokers. Short timeouts speed up tests of
  # rebalance and restart.
  cat >"$run/broker.properties" <<PROPERTIES
process.roles = broker,controller
node.id = 1
controller.quorum.voters = 1@127.0.0.1:$((port + 1))
listeners = PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$((port + 1)),SSL://127.0.0.1:$((port + 2))
advertised.listeners = PLAINTEXT://127.0.0.1:$port,SSL://127.0.0.1:$((port + 2))
controller.listener.names = CONTROLLER
inter.broker.listener.name = PLAINTEXT
listener.security.protocol.map = CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL
ssl.keystore.type = PEM
ssl.keystore.location = $run/tls/broker.pem
ssl.truststore.type = PEM
ssl.truststore.location = $run/tls/ca.crt
ssl.client.auth = required
ssl.principal.mapping.rules = RULE:^CN=([^,]+).*\$/\$1/,DEFAULT
log.dirs = $run/data
log.segment.bytes = 67108864
auto.create.topics.enable = false
default.replication.factor = 1
min.insync.replicas = 1
offsets.topic.replication.factor = 1
offsets.topic.num.partitions = 4
transaction.state.log.replication.factor = 1
transaction.state.log.min.isr = 1
transaction.state.log.num.partitions = 4
share.coordinator.state.topic.replication.factor = 1
share.coordinator.state.topic.min.isr = 1
share.coordinator.state.topic.num.partitions = 1
group.initial.rebalance.delay.ms = 0
group.min.session.timeout.ms = 1000
authorizer.class.name = org.apache.kafka.metadata.authorizer.StandardAuthorizer
allow.everyone.if.no.acl.found = true
PROPERTIES
}

start() {
  running && { say "already running, pid $(pid)"; return 0; }
  get
  need java default-jre-headless
  configure
  if [ ! -e "$run/data/meta.properties" ]; then
    java_line quiet.properties
    local id
    id=$("${java[@]}" kafka.tools.StorageTool random-uuid | tail -1)
    "${java[@]}" kafka.tools.StorageTool format -t "$id" -c "$run/broker.properties" >"$run/format.log" 2>&1 ||
      die "the data folder could not be made, see $run/format.log"
  fi
  java_line log.properties
  : >"$run/broker.log"
  (cd "$run" && exec setsid "${java[@]}" kafka.Kafka "$run/broker.properties" >"$run/broker.log" 2>&1 </dev/null) &
  echo $! >"$run/pid"
  for _ in $(seq 1200); do
    grep -q "Kafka Server started" "$run/broker.log" && { say "serving at 127.0.0.1:$port"; return 0; }
    kill -0 "$(pid)" 2>/dev/null || break
    sleep 0.05
  done
  tail -5 "$run/broker.log" >&2
  die "the broker did not start, see $run/broker.log"
}

end_with() {
  running || { say "not running"; rm -f "$run/pid"; return 0; }
  local p
  p=$(pid)
  kill "-$1" "$p"
  for _ in $(seq 1200); do
    kill -0 "$p" 2>/dev/null || { rm -f "$run/pid"; return 0; }
    sleep 0.05
  done
  die "pid $p does not end"
}

case ${1:-} in
  get) get ;;
  start) start ;;
  stop) end_with TERM ;;
  kill9) end_with KILL ;;
  status) if running; then echo "running, pid $(pid), 127.0.0.1:$port"; else echo "not running"; exit 1; fi ;;
  env) running || die "not running: tools/peers/kafka.sh start"; echo "export QM_KAFKA=127.0.0.1:$port"
    # A broker that was started without TLS has no certificates.
    [ ! -e "$run/tls/broker.pem" ] || echo "export QM_KAFKA_TLS=127.0.0.1:$((port + 2)) QM_KAFKA_TLS_DIR=$run/tls" ;;
  clean) end_with TERM; rm -rf "$run" ;;
  tool) running || die "not running: tools/peers/kafka.sh start"
    shift
    java_line quiet.properties
    exec "${java[@]}" "$1" --bootstrap-server "127.0.0.1:$port" "${@:2}" ;;
  *) sed -n '2,15s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
