#!/bin/sh
# An independent implementation of the AWS protocol: moto's server, pinned, on loopback, with its signature check on.
#
#   tools/peers/moto.sh get     creates the virtual environment (about 320 MB; once)
#   tools/peers/moto.sh start   starts the server, creates a user, its key and an allowing policy, enables the check
#   tools/peers/moto.sh env     prints QM_MOTO, QM_MOTO_KEY, QM_MOTO_SECRET, QM_SDK_PYTHON and QM_SIGV4_SUITE
#   tools/peers/moto.sh stop    stops the server that start started
#
#   eval "$(tools/peers/moto.sh env)" && build/release/bin/cloud_contract_moto_test
set -eu

version=5.2.5
root=$(cd "$(dirname "$0")/../.." && pwd)
home=${QM_PEERS_DIR:-$root/build/peers}/moto
venv=$home/venv
pid_file=$home/pid
env_file=$home/env

fail() {
  echo "moto: $*" >&2
  exit 1
}

# The pid file may outlive its process: the pid is valid only while it is our server.
running() {
  [ -s "$pid_file" ] && [ -r "/proc/$(cat "$pid_file")/cmdline" ] &&
    tr '\0' ' ' <"/proc/$(cat "$pid_file")/cmdline" | grep -q moto_server
}

# The published test suite of Signature Version 4 is in botocore's sources. Without it its test is skipped.
get_suite() {
  [ ! -d "$home/aws4_testsuite" ] || return 0
  version_of_sdk=$("$venv/bin/python" -c 'import botocore; print(botocore.__version__)')
  sources=$(mktemp -d)
  if "$venv/bin/pip" download --quiet --disable-pip-version-check --no-deps --no-binary :all: --dest "$sources" \
    "botocore==$version_of_sdk"; then
    tar -xzf "$sources"/botocore-*.tar.gz -C "$home" --wildcards --strip-components=4 '*/tests/unit/auth/aws4_testsuite/*'
  else
    echo "moto: pip could not download the sources of botocore; the test suite of Signature Version 4 is skipped" >&2
  fi
  rm -rf "$sources"
}

get() {
  if [ -x "$venv/bin/moto_server" ] && [ "$(cat "$home/version" 2>/dev/null)" = "$version" ]; then
    return
  fi
  mkdir -p "$home"
  rm -rf "$venv"
  python3 -m venv "$venv" || fail "python3 has no venv module; install the package python3-venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check "moto[server,ec2]==$version" ||
    fail "pip could not install moto $version"
  echo "$version" >"$home/version"
}

# The key must exist before the check is enabled, and boto3 is installed with moto: so the setup runs in its
# environment.
set_up_access() {
  "$venv/bin/python" - "$1" <<'PY'
import json
import sys
import urllib.request

import boto3

endpoint = sys.argv[1]
iam = boto3.client("iam", endpoint_url=endpoint, region_name="us-east-1",
                   aws_access_key_id="setup", aws_secret_access_key="setup")
iam.create_user(UserName="quartermaster")
iam.put_user_policy(UserName="quartermaster", PolicyName="all", PolicyDocument=json.dumps({
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}],
}))
key = iam.create_access_key(UserName="quartermaster")["AccessKey"]
# The body is the number of calls that are still exempt from the check; a form body is refused.
request = urllib.request.Request(endpoint + "/moto-api/reset-auth", data=b"0",
                                 headers={"Content-Type": "text/plain"}, method="POST")
urllib.request.urlopen(request).read()
print("export QM_MOTO=%s" % endpoint)
print("export QM_MOTO_KEY=%s" % key["AccessKeyId"])
print("export QM_MOTO_SECRET=%s" % key["SecretAccessKey"])
PY
}

start() {
  if running; then
    return
  fi
  [ -x "$venv/bin/moto_server" ] || fail "is not installed; run: $0 get"
  port=${QM_MOTO_PORT:-$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')}
  endpoint=http://127.0.0.1:$port
  rm -f "$env_file"
  # The built-in images are not needed and cost a second and 40 MB.
  MOTO_EC2_LOAD_DEFAULT_AMIS=false nohup "$venv/bin/moto_server" -H 127.0.0.1 -p "$port" \
    >"$home/log" 2>&1 </dev/null &
  echo $! >"$pid_file"
  waited=0
  until python3 -c 'import sys, urllib.request; urllib.request.urlopen(sys.argv[1])' "$endpoint/moto-api/data.json" 2>/dev/null; do
    # Its command line is that of this shell until it executes the program.
    kill -0 "$(cat "$pid_file")" 2>/dev/null || fail "the server ended at once; see $home/log"
    waited=$((waited + 1))
    [ "$waited" -lt 240 ] || fail "the server does not answer on port $port; see $home/log"
    sleep 0.25
  done
  set_up_access "$endpoint" >"$env_file.new"
  echo "export QM_SDK_PYTHON=$venv/bin/python" >>"$env_file.new"  # the AWS SDK for Python is part of it
  [ ! -d "$home/aws4_testsuite" ] || echo "export QM_SIGV4_SUITE=$home/aws4_testsuite" >>"$env_file.new"
  mv "$env_file.new" "$env_file"
}

stop() {
  if running; then
    kill "$(cat "$pid_file")"
  fi
  rm -f "$pid_file" "$env_file"
}

case ${1:-} in
  get) get && get_suite ;;
  start) get && get_suite && start && cat "$env_file" ;;
  env) running && [ -s "$env_file" ] || fail "is not running; run: $0 start"; cat "$env_file" ;;
  stop) stop ;;
  *) sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
