#!/bin/bash
# The entry point of the public PostgreSQL image, as far as the compose file uses it: a user, its password, a
# database, and scripts at the first start.
set -euo pipefail
export PATH=/usr/lib/postgresql/15/bin:/usr/sbin:/usr/bin:/sbin:/bin PGDATA=/var/lib/postgresql/data
as() { setpriv --reuid=postgres --regid=postgres --init-groups "$@"; }
mkdir -p "$PGDATA"
chown postgres: "$PGDATA"
chmod 0700 "$PGDATA"
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  password=$(mktemp)
  printf '%s\n' "$POSTGRES_PASSWORD" >"$password"
  chown postgres: "$password"
  as initdb --pgdata="$PGDATA" --username="$POSTGRES_USER" --pwfile="$password" --auth-host=scram-sha-256 --auth-local=trust >/dev/null
  rm "$password"
  echo "host all all all scram-sha-256" >>"$PGDATA/pg_hba.conf"
  as pg_ctl --pgdata="$PGDATA" --wait --options="-c listen_addresses='' -c unix_socket_directories=/tmp" start >/dev/null
  as createdb --host=/tmp --username="$POSTGRES_USER" "$POSTGRES_DB"
  for script in /docker-entrypoint-initdb.d/*.sql; do
    as psql --host=/tmp --username="$POSTGRES_USER" --dbname="$POSTGRES_DB" --quiet --set=ON_ERROR_STOP=1 --file="$script"
  done
  as pg_ctl --pgdata="$PGDATA" --wait stop >/dev/null
fi
exec setpriv --reuid=postgres --regid=postgres --init-groups postgres -D "$PGDATA" -c listen_addresses='*' -c unix_socket_directories=/tmp
