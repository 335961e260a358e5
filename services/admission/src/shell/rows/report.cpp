#include "qm/admission/report.hpp"

#include "qm/base/time.hpp"

#include <string>
#include <string_view>

namespace qm::admission {
namespace {

constexpr const char* kTransitions = R"sql(
create table {schema}.transitions (
  uid text not null,
  attempt int not null,
  what text not null check (what in ('admitted', 'evicted', 'finished', 'cancelled')),
  at_us bigint not null,
  team text not null,
  namespace text not null,
  workload text not null,
  cluster_queue text not null,
  priority int not null,
  gpu_milli bigint not null,
  submitted_us bigint not null,
  queued_us bigint not null,
  admitted_us bigint not null,
  succeeded boolean not null,
  reason text not null
);
create index transitions_at on {schema}.transitions using brin (at_us);
create index transitions_uid on {schema}.transitions (uid);
)sql";

// All services share the schema and all shards share the views, so another one may be creating them at this moment.
// Each shard that joins creates them again, and so does every later step that changes them.
constexpr const char* kReport = R"sql(
do $body$ begin
  create schema if not exists report;
exception when unique_violation or duplicate_schema then null;
end $body$;

do $body$
declare
  rows text;
begin
  perform pg_advisory_xact_lock(hashtextextended('qm-report admission', 0));
  drop view if exists report.workload_transitions, report.queue_waits, report.jobs;
  select string_agg(format('select %L::text as shard, uid, attempt, what, at_us, team, namespace, workload, '
                           'cluster_queue, priority, gpu_milli, submitted_us, queued_us, admitted_us, succeeded, reason '
                           'from %I.transitions', case n.nspname when 'admission' then 'default'
                                          else substr(n.nspname, length('admission_') + 1) end, n.nspname),
                    ' union all ' order by n.nspname)
    into rows
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where c.relname = 'transitions' and c.relkind = 'r'
      and (n.nspname = 'admission' or n.nspname like 'admission\_%');
  execute 'create view report.workload_transitions as ' || rows;
end $body$;

create view report.queue_waits as
select to_timestamp(at_us / 1000000.0) as time, cluster_queue, team, namespace, workload, uid, attempt, priority,
       gpu_milli / 1000.0 as gpus, greatest(0, at_us - queued_us) / 1000000.0 as wait_seconds, shard
from report.workload_transitions where what = 'admitted';

create view report.jobs as
select uid, shard, min(team) as team, min(namespace) as namespace, min(workload) as workload,
       max(cluster_queue) as cluster_queue, max(gpu_milli) / 1000.0 as gpus,
       to_timestamp(min(submitted_us) / 1000000.0) as submitted,
       to_timestamp(min(at_us) filter (where what = 'admitted') / 1000000.0) as first_start,
       to_timestamp(max(at_us) filter (where what in ('finished', 'cancelled')) / 1000000.0) as ended,
       greatest(0, min(at_us) filter (where what = 'admitted') - min(submitted_us)) / 1000000.0 as wait_seconds,
       count(*) filter (where what = 'admitted') as starts, count(*) filter (where what = 'evicted') as evictions,
       coalesce(bool_or(succeeded) filter (where what = 'finished'), false) as succeeded
from report.workload_transitions group by uid, shard;
)sql";

// The lifecycle of each workload that was admitted, one row for each state. A shard that has not run this step yet
// has no timestamp of the quota reservation.
constexpr const char* kLog = R"sql(
alter table {schema}.transitions add column quota_reserved_us bigint not null default 0;
alter table {schema}.transitions drop constraint transitions_what_check;
alter table {schema}.transitions add constraint transitions_what_check
  check (what in ('admitted', 'bound', 'evicted', 'finished', 'cancelled'));

do $body$
declare
  rows text;
begin
  perform pg_advisory_xact_lock(hashtextextended('qm-report admission', 0));
  drop view if exists report.workload_log;
  select string_agg(format('select %L::text as shard, uid, attempt, what, at_us, namespace, workload, cluster_queue, reason, '
                           'queued_us, coalesce((to_jsonb(t)->>''quota_reserved_us'')::bigint, 0) as quota_reserved_us '
                           'from %I.transitions t', case n.nspname when 'admission' then 'default'
                                          else substr(n.nspname, length('admission_') + 1) end, n.nspname),
                    ' union all ' order by n.nspname)
    into rows
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where c.relname = 'transitions' and c.relkind = 'r'
      and (n.nspname = 'admission' or n.nspname like 'admission\_%');
  execute 'create view report.workload_log as with t as (' || rows || ') '
          'select to_timestamp(s.at_us / 1000000.0) as time, t.namespace, t.workload, t.uid, t.attempt, s.state, s.step, '
          't.cluster_queue, t.reason, t.shard from t cross join lateral (values '
          '(''Queued'', 1, t.queued_us, t.what = ''admitted''), '
          '(''QuotaReserved'', 2, t.quota_reserved_us, t.what = ''admitted''), '
          '(''Admitted'', 3, t.at_us, t.what = ''admitted''), '
          '(initcap(t.what), case t.what when ''bound'' then 4 when ''evicted'' then 5 else 6 end, t.at_us, t.what <> ''admitted'')'
          ') as s(state, step, at_us, holds) where s.holds';
end $body$;
)sql";

std::optional<std::string_view> kind_of(Event::What what) {
  switch (what) {
    case Event::What::kAdmitted:
      return "admitted";
    case Event::What::kBound:
      return "bound";
    case Event::What::kEvicting:
      return "evicted";
    case Event::What::kFinished:
      return "finished";
    case Event::What::kCancelled:
      return "cancelled";
    default:
      return std::nullopt;
  }
}

Instant instant_of(const Event& event) {
  const Workload& w = event.workload;
  if (event.what == Event::What::kBound) return event.at;
  if (event.what == Event::What::kAdmitted) return w.admitted;
  if (event.what == Event::What::kEvicting) return w.eviction ? w.eviction->ordered : w.admitted;
  return w.finished;
}

}  // namespace

std::vector<store::Migration> migrations() {
  return {{1, "transitions", kTransitions}, {2, "report", kReport}, {3, "log", kLog}};
}

std::optional<store::AppendRow> transition_row(const Event& event) {
  static const std::vector<std::string> kNames{"uid",         "attempt",   "what",         "at_us",
                                               "team",        "namespace", "workload",     "cluster_queue",
                                               "priority",    "gpu_milli", "submitted_us", "queued_us",
                                               "admitted_us", "succeeded", "reason",       "quota_reserved_us"};
  const auto what = kind_of(event.what);
  if (!what) return std::nullopt;
  const Workload& w = event.workload;
  const auto us = [](Instant t) { return std::to_string(micros(t)); };
  return store::AppendRow{
      "transitions",
      kNames,
      {w.spec.uid.value(), std::to_string(w.attempt), std::string(*what), us(instant_of(event)), w.spec.team.value(),
       w.spec.ns.value(), w.spec.name, w.cluster_queue.value(), std::to_string(w.spec.priority),
       std::to_string(w.running().total_gpu_milli()), us(w.spec.submitted), us(w.queued), us(w.admitted),
       w.succeeded ? "true" : "false", w.reason, us(w.quota_reserved)}};
}

}  // namespace qm::admission
