# Sourced: starts a private PostgreSQL that syncs to disk as in production, stops it when the shell exits, and sets
# `conninfo`. `shared_buffers` may be set before.
pg=$(ls -d /usr/lib/postgresql/*/bin | sort -V | tail -1)
dir=$(mktemp -d)
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
as() { if [ "$(id -u)" = 0 ]; then setpriv --reuid=postgres --regid=postgres --init-groups "$@"; else "$@"; fi; }
[ "$(id -u)" = 0 ] && chown postgres "$dir"
cleanup() { as "$pg/pg_ctl" -D "$dir/data" -m fast -w stop >/dev/null 2>&1 || true; rm -rf "$dir"; }
trap cleanup EXIT
as "$pg/initdb" -D "$dir/data" -U postgres -A trust -E UTF8 --no-locale >/dev/null
as "$pg/pg_ctl" -D "$dir/data" -w -l "$dir/log" -o "-p $port -k $dir -c listen_addresses=127.0.0.1 -c shared_buffers=${shared_buffers:-256MB}" \
  start >/dev/null
conninfo="host=127.0.0.1 port=$port user=postgres dbname=postgres"
