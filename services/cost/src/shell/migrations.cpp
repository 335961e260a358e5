#include "qm/cost/shell.hpp"

namespace qm::cost {
namespace {

// The ledger. Rows are only ever added: a correction is a reversing entry and a new one. An entry must add up to zero
// in money and in GPU-time when its transaction commits, and lines cannot be added to it later.
constexpr const char* kLedger = R"sql(
create table {schema}.ledger (
  entry_id text collate "C" not null,
  line smallint not null check (line > 0),
  at_us bigint not null,
  valid_from bigint not null,
  valid_to bigint not null check (valid_to > valid_from),
  account text not null check (account <> ''),
  team text not null,
  namespace text not null,
  workload text not null,
  instance text not null,
  node text not null,
  nano bigint not null,
  gpu_micros bigint not null,
  kind text not null check (kind in ('charge', 'reversal')),
  uid text not null default '',
  written_by xid8 not null default pg_current_xact_id(),
  primary key (entry_id, line)
);
create index ledger_valid_from on {schema}.ledger using brin (valid_from);
create index ledger_workload on {schema}.ledger (namespace, workload) where workload <> '';

create function {schema}.ledger_entry_balances() returns trigger language plpgsql as $body$
declare
  entry record;
begin
  select sum(nano) as nano, sum(gpu_micros) as gpu_micros, count(distinct written_by) as writers
    into entry from {schema}.ledger where entry_id = new.entry_id;
  if entry.nano <> 0 or entry.gpu_micros <> 0 then
    raise exception 'ledger entry % does not balance: % nano, % gpu micros', new.entry_id, entry.nano, entry.gpu_micros
      using errcode = 'check_violation';
  end if;
  if entry.writers > 1 then
    raise exception 'ledger entry % is closed: post another one', new.entry_id using errcode = 'check_violation';
  end if;
  return null;
end $body$;
create constraint trigger ledger_entry_balances after insert on {schema}.ledger
  deferrable initially deferred for each row execute function {schema}.ledger_entry_balances();

create function {schema}.ledger_is_append_only() returns trigger language plpgsql as $body$
begin
  raise exception 'the ledger is append-only: post a reversing entry instead of %', lower(tg_op)
    using errcode = 'insufficient_privilege';
end $body$;
create trigger ledger_is_append_only before update or delete or truncate on {schema}.ledger
  for each statement execute function {schema}.ledger_is_append_only();
revoke update, delete, truncate on {schema}.ledger from public;
)sql";

// The workload behind a uid, inserted again with each change; the last row counts. Names are reused, uids never.
constexpr const char* kOwners = R"sql(
create table {schema}.owners (
  number bigint generated always as identity primary key,
  uid text not null, at_us bigint not null, team text not null, namespace text not null, workload text not null,
  product text not null, cost_center text not null, environment text not null, workload_type text not null
);
create index owners_uid on {schema}.owners (uid, number);
)sql";

// The views for Grafana: dollars and hours from exact sums. A shard is a cluster, and an administrator of several
// clusters needs one bill:
// the views read all shards of this database, and `shard` distinguishes them. Each shard that joins creates them
// again, and so does every later step that changes them: dropped and created, because a view cannot lose a column
// otherwise.
constexpr const char* kReport = R"sql(
do $body$ begin
  create schema if not exists report;
exception when unique_violation or duplicate_schema then null;
end $body$;

create function {schema}.of_all_shards(relation text, columns text) returns text language sql stable as $body$
  select string_agg(format('select %L::text as shard, %s from %I.%I',
                           case n.nspname when 'cost' then 'default' else substr(n.nspname, length('cost_') + 1) end,
                           columns, n.nspname, relation), ' union all ' order by n.nspname)
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
  where c.relname = relation and c.relkind = 'r' and (n.nspname = 'cost' or n.nspname like 'cost\_%')
$body$;

do $body$ begin
  perform pg_advisory_xact_lock(hashtextextended('qm-report cost', 0));
  drop view if exists report.cost_ledger, report.workloads, report.chargeback_by_team_month, report.cost_by_hour,
    report.idle_by_day, report.cost_by_job, report.chargeback, report.ledger_balance;
  execute 'create view report.cost_ledger as ' || {schema}.of_all_shards('ledger',
    'entry_id, line, at_us, valid_from, valid_to, account, team, namespace, workload, uid, instance, node, nano, '
    'gpu_micros, kind');
  execute 'create view report.workloads as select distinct on (shard, uid) shard, uid, team, namespace, workload, '
    'product, cost_center, environment, workload_type from (' || {schema}.of_all_shards('owners', '*') ||
    ') o order by shard, uid, number desc';
end $body$;

create view report.chargeback_by_team_month as
select to_char(to_timestamp(valid_from / 1000000) at time zone 'UTC', 'YYYY-MM') as month, team,
       sum(nano)::numeric / 1000000000 as usd, sum(gpu_micros)::numeric / 3600000000 as gpu_hours
from report.cost_ledger where account <> 'provider-payable' group by 1, 2;

create view report.cost_by_hour as
select to_timestamp(l.valid_from / 1000000 / 3600 * 3600) as time, l.shard, l.account, l.team, l.namespace,
       coalesce(w.product, '') as product,
       sum(l.nano)::numeric / 1000000000 as usd, sum(l.gpu_micros)::numeric / 3600000000 as gpu_hours
from report.cost_ledger l left join report.workloads w using (shard, uid)
where l.account <> 'provider-payable' group by 1, 2, 3, 4, 5, 6;

create view report.idle_by_day as
select date_trunc('day', to_timestamp(valid_from / 1000000) at time zone 'UTC') as day, account,
       sum(nano)::numeric / 1000000000 as usd, sum(gpu_micros)::numeric / 3600000000 as gpu_hours
from report.cost_ledger where account not in ('provider-payable', 'team-expense') group by 1, 2;

create view report.cost_by_job as
select l.shard, l.uid, l.namespace, l.workload, l.team, coalesce(w.product, '') as product,
       to_timestamp(min(l.valid_from) / 1000000.0) as first_charged,
       to_timestamp(max(l.valid_to) / 1000000.0) as last_charged, count(distinct l.node) as nodes,
       sum(l.nano)::numeric / 1000000000 as usd, sum(l.gpu_micros)::numeric / 3600000000 as gpu_hours
from report.cost_ledger l left join report.workloads w using (shard, uid)
where l.account = 'team-expense' group by 1, 2, 3, 4, 5, 6;

create view report.chargeback as
select to_char(to_timestamp(l.valid_from / 1000000) at time zone 'UTC', 'YYYY-MM') as month, l.shard, l.account,
       l.team, l.namespace, coalesce(w.product, '') as product, coalesce(w.cost_center, '') as cost_center,
       coalesce(w.environment, '') as environment, coalesce(w.workload_type, '') as workload_type,
       sum(l.nano)::numeric / 1000000000 as usd, sum(l.gpu_micros)::numeric / 3600000000 as gpu_hours
from report.cost_ledger l left join report.workloads w using (shard, uid)
where l.account <> 'provider-payable' group by 1, 2, 3, 4, 5, 6, 7, 8, 9;

create view report.ledger_balance as
select count(distinct (shard, entry_id)) as entries, coalesce(sum(nano), 0)::numeric as imbalance_nano,
       coalesce(-sum(nano) filter (where account = 'provider-payable'), 0)::numeric / 1000000000 as provider_usd
from report.cost_ledger;
)sql";

}  // namespace

std::vector<store::Migration> migrations() {
  return {{1, "ledger", kLedger}, {2, "owners", kOwners}, {3, "report", kReport}};
}

}  // namespace qm::cost
