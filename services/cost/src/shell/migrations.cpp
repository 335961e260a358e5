#include "qm/cost/shell.hpp"

namespace qm::cost {
namespace {

// The books. Rows are only ever added: a correction is a reversing entry and a new one. An entry must add up to zero in
// money and in GPU-time when its transaction commits, and it cannot be added to later.
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

// What Grafana reads: dollars and hours from exact sums. The schema is shared by all services, so another one may be
// creating it at this moment.
constexpr const char* kReport = R"sql(
do $body$ begin
  create schema if not exists report;
exception when unique_violation or duplicate_schema then null;
end $body$;

create or replace view report.chargeback_by_team_month as
select to_char(to_timestamp(valid_from / 1000000) at time zone 'UTC', 'YYYY-MM') as month, team,
       sum(nano)::numeric / 1000000000 as usd, sum(gpu_micros)::numeric / 3600000000 as gpu_hours
from {schema}.ledger where account <> 'provider-payable' group by 1, 2;

create or replace view report.cost_by_hour as
select to_timestamp(valid_from / 1000000 / 3600 * 3600) as time, team, namespace, account,
       sum(nano)::numeric / 1000000000 as usd, sum(gpu_micros)::numeric / 3600000000 as gpu_hours
from {schema}.ledger where account <> 'provider-payable' group by 1, 2, 3, 4;

create or replace view report.idle_by_day as
select date_trunc('day', to_timestamp(valid_from / 1000000) at time zone 'UTC') as day, account,
       sum(nano)::numeric / 1000000000 as usd, sum(gpu_micros)::numeric / 3600000000 as gpu_hours
from {schema}.ledger where account not in ('provider-payable', 'team-expense') group by 1, 2;

create or replace view report.cost_by_job as
select namespace, workload, team, to_timestamp(min(valid_from) / 1000000.0) as first_charged,
       to_timestamp(max(valid_to) / 1000000.0) as last_charged, count(distinct node) as nodes,
       sum(nano)::numeric / 1000000000 as usd, sum(gpu_micros)::numeric / 3600000000 as gpu_hours
from {schema}.ledger where account = 'team-expense' group by 1, 2, 3;

create or replace view report.ledger_balance as
select count(distinct entry_id) as entries, coalesce(sum(nano), 0)::numeric as imbalance_nano,
       coalesce(-sum(nano) filter (where account = 'provider-payable'), 0)::numeric / 1000000000 as provider_usd
from {schema}.ledger;
)sql";

// A shard is a cluster, and who pays for several wants one bill: the views of the step before read the ledger of the
// shard that ran it last. From here on they read those of all shards in this database; `cost_ledger` tells them apart.
// A new shard runs both steps, so the columns of the five stay as they are.
constexpr const char* kReportOfAllShards = R"sql(
do $body$
declare
  ledgers text;
begin
  perform pg_advisory_xact_lock(hashtextextended('qm-report cost', 0));
  select string_agg(format('select %L::text as shard, l.* from %I.ledger l',
                           case n.nspname when 'cost' then 'default' else substr(n.nspname, length('cost_') + 1) end,
                           n.nspname), ' union all ' order by n.nspname)
    into ledgers
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where c.relname = 'ledger' and c.relkind = 'r' and (n.nspname = 'cost' or n.nspname like 'cost\_%');
  execute 'create or replace view report.cost_ledger as ' || ledgers;
end $body$;

create or replace view report.chargeback_by_team_month as
select to_char(to_timestamp(valid_from / 1000000) at time zone 'UTC', 'YYYY-MM') as month, team,
       sum(nano)::numeric / 1000000000 as usd, sum(gpu_micros)::numeric / 3600000000 as gpu_hours
from report.cost_ledger where account <> 'provider-payable' group by 1, 2;

create or replace view report.cost_by_hour as
select to_timestamp(valid_from / 1000000 / 3600 * 3600) as time, team, namespace, account,
       sum(nano)::numeric / 1000000000 as usd, sum(gpu_micros)::numeric / 3600000000 as gpu_hours
from report.cost_ledger where account <> 'provider-payable' group by 1, 2, 3, 4;

create or replace view report.idle_by_day as
select date_trunc('day', to_timestamp(valid_from / 1000000) at time zone 'UTC') as day, account,
       sum(nano)::numeric / 1000000000 as usd, sum(gpu_micros)::numeric / 3600000000 as gpu_hours
from report.cost_ledger where account not in ('provider-payable', 'team-expense') group by 1, 2;

create or replace view report.cost_by_job as
select namespace, workload, team, to_timestamp(min(valid_from) / 1000000.0) as first_charged,
       to_timestamp(max(valid_to) / 1000000.0) as last_charged, count(distinct node) as nodes,
       sum(nano)::numeric / 1000000000 as usd, sum(gpu_micros)::numeric / 3600000000 as gpu_hours
from report.cost_ledger where account = 'team-expense' group by 1, 2, 3;

create or replace view report.ledger_balance as
select count(distinct (shard, entry_id)) as entries, coalesce(sum(nano), 0)::numeric as imbalance_nano,
       coalesce(-sum(nano) filter (where account = 'provider-payable'), 0)::numeric / 1000000000 as provider_usd
from report.cost_ledger;
)sql";

}  // namespace

std::vector<store::Migration> migrations() {
  return {{1, "ledger", kLedger}, {2, "report", kReport}, {3, "report_of_all_shards", kReportOfAllShards}};
}

}  // namespace qm::cost
