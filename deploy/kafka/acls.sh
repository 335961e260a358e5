#!/bin/bash
# What each service may do on Kafka, as commands for kafka-acls.sh: it writes its own topics and the dead letters of what it
# hears, reads what it hears, and nothing else. docs/api.md says who hears what; a test holds both together.
#
#   deploy/kafka/acls.sh [PRINCIPAL-PREFIX]          prints the commands; default User:quartermaster-
#   deploy/kafka/acls.sh | sed 's/^kafka-acls.sh/& --bootstrap-server HOST:PORT --command-config admin.conf/' | bash
#
# Topics are made by the services at their first start where they may (--create, the default); with CREATE=no nothing may be
# made, and an administrator creates them first, with the partitions and limits that docs/api.md names.
set -euo pipefail
prefix=${1:-User:quartermaster-}

# service: topics that it writes; topics that it reads
table='
admission:  qm.workload;          qm.placement qm.capacity qm.cost
placement:  qm.placement qm.node; qm.workload qm.gpu qm.capacity
autoscaler: qm.capacity;          qm.placement qm.node qm.workload qm.spot qm.gpu
telemetry:  qm.gpu qm.spot;       qm.capacity qm.node
cost:       qm.cost;              qm.placement qm.node qm.capacity
'
all="qm.workload qm.placement qm.node qm.capacity qm.gpu qm.spot qm.cost"

allow() { echo "kafka-acls.sh --add --allow-principal $who $*"; }

while IFS=':;' read -r service writes reads; do
  [ -n "$service" ] || continue
  who=$prefix$service
  own=""
  for topic in $writes; do own="$own $topic $topic.dlq"; done
  for topic in $reads; do own="$own $topic.dlq"; done
  own="$own qm.inputs.$service.dlq"
  for topic in $own; do
    allow --operation Write --operation Describe --operation DescribeConfigs --topic "$topic"
    [ "${CREATE:-yes}" = no ] || allow --operation Create --operation AlterConfigs --topic "$topic"
  done
  for topic in $reads; do
    allow --operation Read --operation Describe --operation DescribeConfigs --topic "$topic"
    [ "${CREATE:-yes}" = no ] || allow --operation Create --operation AlterConfigs --topic "$topic"
  done
  # Telemetry forwards a line of every message to clients that follow events; it decides nothing.
  if [ "$service" = telemetry ]; then
    for topic in $all; do allow --operation Read --operation Describe --topic "$topic"; done
  fi
  allow --operation Read --resource-pattern-type prefixed --group "$service"
  [ "$service" != telemetry ] || allow --operation Read --resource-pattern-type prefixed --group observer
done <<<"$table"
