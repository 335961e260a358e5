#include "schema.hpp"

namespace qm::store {
namespace {

// One row in `leader` has the epoch and all last numbers, so a commit ends with one small update that is at once the
// epoch check, the bookkeeping, and the proof for the lookup of a COMMIT whose result was lost (`commits`).
constexpr const char* kTables = R"sql(
create table {schema}.leader (
  one boolean primary key default true check (one),
  epoch bigint not null default 0,
  holder text not null default '',
  taken_at timestamptz not null default now(),
  commits bigint not null default 0,
  journal_sequence bigint not null default 0,
  outbox_sequence bigint not null default 0,
  intent_sequence bigint not null default 0,
  last_now bigint not null default 0
) with (fillfactor = 10);
insert into {schema}.leader default values;

create table {schema}.state (
  kind text collate "C", key text collate "C", value bytea not null, primary key (kind, key)
) with (fillfactor = 80);
create table {schema}.journal (
  sequence bigint primary key, epoch bigint not null, now bigint not null, digest bigint not null,
  bytes bytea not null, committed_at timestamptz not null default now()
);
create table {schema}.outbox (
  sequence bigint primary key, topic text not null, key text not null, key_version bigint not null,
  tombstone boolean not null, value bytea not null
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);
create table {schema}.published (
  topic text collate "C", key text collate "C", key_version bigint not null, tombstone boolean not null,
  sequence bigint not null, value bytea not null, primary key (topic, key)
) with (fillfactor = 80);
create table {schema}.intent (
  id text primary key, kind text not null, key text not null, sequence bigint not null, payload bytea not null
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);
create table {schema}.cursor (
  topic text collate "C", partition int, next_offset bigint not null, primary key (topic, partition)
) with (fillfactor = 20);
create table {schema}.seen (
  topic text collate "C", key text collate "C", version bigint not null, gone boolean not null,
  primary key (topic, key)
) with (fillfactor = 80);
create table {schema}.request (id text primary key, at bigint not null, reply bytea not null);
create index on {schema}.request (at);
)sql";

// A whole batch in one round trip. Every list is a set of arrays of one length; each key occurs once.
// False: another leader took over, and the caller rolls back. The check is last, so that its row lock is short.
constexpr const char* kWriteBatch = R"sql(
create function {schema}.write_batch(
  p_epoch bigint, p_now bigint, p_journal_sequence bigint, p_journal bytea, p_digest bigint,
  p_state_kind text[], p_state_key text[], p_state_value bytea[],
  p_gone_kind text[], p_gone_key text[],
  p_out_sequence bigint[], p_out_topic text[], p_out_key text[], p_out_version bigint[], p_out_tombstone boolean[],
  p_out_value bytea[], p_out_newest boolean[],
  p_intent_id text[], p_intent_kind text[], p_intent_key text[], p_intent_sequence bigint[], p_intent_payload bytea[],
  p_intents_done text[],
  p_cursor_topic text[], p_cursor_partition bigint[], p_cursor_next bigint[],
  p_seen_topic text[], p_seen_key text[], p_seen_version bigint[], p_seen_gone boolean[],
  p_request_id text[], p_request_at bigint[], p_request_reply bytea[], p_request_oldest bigint)
returns boolean language plpgsql as $body$
begin
  if p_journal_sequence > 0 then
    insert into {schema}.journal (sequence, epoch, now, digest, bytes)
    values (p_journal_sequence, p_epoch, p_now, p_digest, p_journal);
  end if;
  if cardinality(p_state_key) > 0 then
    insert into {schema}.state as s (kind, key, value)
    select * from unnest(p_state_kind, p_state_key, p_state_value)
    on conflict (kind, key) do update set value = excluded.value;
  end if;
  if cardinality(p_gone_key) > 0 then
    delete from {schema}.state s using unnest(p_gone_kind, p_gone_key) as g(kind, key)
    where s.kind = g.kind and s.key = g.key;
  end if;
  if cardinality(p_out_sequence) > 0 then
    insert into {schema}.outbox (sequence, topic, key, key_version, tombstone, value)
    select * from unnest(p_out_sequence, p_out_topic, p_out_key, p_out_version, p_out_tombstone, p_out_value);
    insert into {schema}.published as p (sequence, topic, key, key_version, tombstone, value)
    select o.sequence, o.topic, o.key, o.key_version, o.tombstone, o.value
    from unnest(p_out_sequence, p_out_topic, p_out_key, p_out_version, p_out_tombstone, p_out_value, p_out_newest)
      as o(sequence, topic, key, key_version, tombstone, value, newest)
    where o.newest
    on conflict (topic, key) do update set sequence = excluded.sequence, key_version = excluded.key_version,
      tombstone = excluded.tombstone, value = excluded.value;
  end if;
  if cardinality(p_intent_id) > 0 then
    insert into {schema}.intent (id, kind, key, sequence, payload)
    select * from unnest(p_intent_id, p_intent_kind, p_intent_key, p_intent_sequence, p_intent_payload)
    on conflict (id) do nothing;
  end if;
  if cardinality(p_intents_done) > 0 then
    delete from {schema}.intent where id = any(p_intents_done);
  end if;
  if cardinality(p_cursor_topic) > 0 then
    insert into {schema}.cursor as c (topic, partition, next_offset)
    select * from unnest(p_cursor_topic, p_cursor_partition, p_cursor_next)
    on conflict (topic, partition) do update set next_offset = excluded.next_offset;
  end if;
  if cardinality(p_seen_key) > 0 then
    insert into {schema}.seen as s (topic, key, version, gone)
    select * from unnest(p_seen_topic, p_seen_key, p_seen_version, p_seen_gone)
    on conflict (topic, key) do update set version = excluded.version, gone = excluded.gone;
  end if;
  if cardinality(p_request_id) > 0 then
    delete from {schema}.request where at < p_request_oldest;
    insert into {schema}.request as r (id, at, reply)
    select * from unnest(p_request_id, p_request_at, p_request_reply)
    on conflict (id) do update set at = excluded.at, reply = excluded.reply;
  end if;
  update {schema}.leader set
    commits = commits + 1,
    journal_sequence = greatest(journal_sequence, p_journal_sequence),
    outbox_sequence = greatest(outbox_sequence, p_out_sequence[cardinality(p_out_sequence)]),
    intent_sequence = greatest(intent_sequence, p_intent_sequence[cardinality(p_intent_sequence)]),
    last_now = greatest(last_now, p_now)
  where epoch = p_epoch;
  return found;
end $body$;
)sql";

// Versions of deleted keys are removed some time after the deletion; so their rows have its time.
constexpr const char* kForget = R"sql(
alter table {schema}.seen add column at timestamptz not null default now();
alter table {schema}.published add column at timestamptz not null default now();
create table {schema}.floor (topic text collate "C" primary key, version bigint not null);

create or replace function {schema}.write_batch(
  p_epoch bigint, p_now bigint, p_journal_sequence bigint, p_journal bytea, p_digest bigint,
  p_state_kind text[], p_state_key text[], p_state_value bytea[],
  p_gone_kind text[], p_gone_key text[],
  p_out_sequence bigint[], p_out_topic text[], p_out_key text[], p_out_version bigint[], p_out_tombstone boolean[],
  p_out_value bytea[], p_out_newest boolean[],
  p_intent_id text[], p_intent_kind text[], p_intent_key text[], p_intent_sequence bigint[], p_intent_payload bytea[],
  p_intents_done text[],
  p_cursor_topic text[], p_cursor_partition bigint[], p_cursor_next bigint[],
  p_seen_topic text[], p_seen_key text[], p_seen_version bigint[], p_seen_gone boolean[],
  p_request_id text[], p_request_at bigint[], p_request_reply bytea[], p_request_oldest bigint)
returns boolean language plpgsql as $body$
begin
  if p_journal_sequence > 0 then
    insert into {schema}.journal (sequence, epoch, now, digest, bytes)
    values (p_journal_sequence, p_epoch, p_now, p_digest, p_journal);
  end if;
  if cardinality(p_state_key) > 0 then
    insert into {schema}.state as s (kind, key, value)
    select * from unnest(p_state_kind, p_state_key, p_state_value)
    on conflict (kind, key) do update set value = excluded.value;
  end if;
  if cardinality(p_gone_key) > 0 then
    delete from {schema}.state s using unnest(p_gone_kind, p_gone_key) as g(kind, key)
    where s.kind = g.kind and s.key = g.key;
  end if;
  if cardinality(p_out_sequence) > 0 then
    insert into {schema}.outbox (sequence, topic, key, key_version, tombstone, value)
    select * from unnest(p_out_sequence, p_out_topic, p_out_key, p_out_version, p_out_tombstone, p_out_value);
    insert into {schema}.published as p (sequence, topic, key, key_version, tombstone, value)
    select o.sequence, o.topic, o.key, o.key_version, o.tombstone, o.value
    from unnest(p_out_sequence, p_out_topic, p_out_key, p_out_version, p_out_tombstone, p_out_value, p_out_newest)
      as o(sequence, topic, key, key_version, tombstone, value, newest)
    where o.newest
    on conflict (topic, key) do update set sequence = excluded.sequence, key_version = excluded.key_version,
      tombstone = excluded.tombstone, value = excluded.value, at = excluded.at;
  end if;
  if cardinality(p_intent_id) > 0 then
    insert into {schema}.intent (id, kind, key, sequence, payload)
    select * from unnest(p_intent_id, p_intent_kind, p_intent_key, p_intent_sequence, p_intent_payload)
    on conflict (id) do nothing;
  end if;
  if cardinality(p_intents_done) > 0 then
    delete from {schema}.intent where id = any(p_intents_done);
  end if;
  if cardinality(p_cursor_topic) > 0 then
    insert into {schema}.cursor as c (topic, partition, next_offset)
    select * from unnest(p_cursor_topic, p_cursor_partition, p_cursor_next)
    on conflict (topic, partition) do update set next_offset = excluded.next_offset;
  end if;
  if cardinality(p_seen_key) > 0 then
    insert into {schema}.seen as s (topic, key, version, gone)
    select * from unnest(p_seen_topic, p_seen_key, p_seen_version, p_seen_gone)
    on conflict (topic, key) do update set version = excluded.version, gone = excluded.gone, at = excluded.at;
  end if;
  if cardinality(p_request_id) > 0 then
    delete from {schema}.request where at < p_request_oldest;
    insert into {schema}.request as r (id, at, reply)
    select * from unnest(p_request_id, p_request_at, p_request_reply)
    on conflict (id) do update set at = excluded.at, reply = excluded.reply;
  end if;
  update {schema}.leader set
    commits = commits + 1,
    journal_sequence = greatest(journal_sequence, p_journal_sequence),
    outbox_sequence = greatest(outbox_sequence, p_out_sequence[cardinality(p_out_sequence)]),
    intent_sequence = greatest(intent_sequence, p_intent_sequence[cardinality(p_intent_sequence)]),
    last_now = greatest(last_now, p_now)
  where epoch = p_epoch;
  return found;
end $body$;
)sql";

// The leader, for standby replicas: see lease.hpp. A separate table, because a beat must not wait for a commit.
constexpr const char* kLease = R"sql(
create table {schema}.lease (
  one boolean primary key default true check (one),
  holder text not null default '', address text not null default '', pid bigint not null default 0,
  beat bigint not null default 0, terms bigint not null default 0, released boolean not null default false,
  at timestamptz not null default clock_timestamp()
) with (fillfactor = 10);
insert into {schema}.lease default values;
)sql";

// Callers, requests and outcomes. Rows are only ever added; an administrator who may keep fewer of them deletes old
// ones as the owner of the schema, with the trigger disabled.
constexpr const char* kAudit = R"sql(
create table {schema}.audit (
  number bigint generated always as identity primary key,
  at timestamptz not null default now(),
  caller text not null, roles text not null, method text not null, object text not null, request_id text not null,
  outcome text not null, decision text not null
);
create index on {schema}.audit using brin (at);
create function {schema}.audit_is_append_only() returns trigger language plpgsql as $body$
begin
  raise exception 'the audit trail is append-only' using errcode = 'insufficient_privilege';
end $body$;
create trigger audit_is_append_only before update or delete or truncate on {schema}.audit
  for each statement execute function {schema}.audit_is_append_only();
)sql";

// Terms of the producer (history.hpp), and with each cursor the identity of its log and of its history.
constexpr const char* kHistory = R"sql(
alter table {schema}.leader add column term bigint not null default 0, add column ancestors text not null default '';
alter table {schema}.cursor add column mark bigint not null default 0, add column history text not null default '';

drop function {schema}.write_batch(
  bigint, bigint, bigint, bytea, bigint, text[], text[], bytea[], text[], text[], bigint[], text[], text[],
  bigint[], boolean[], bytea[], boolean[], text[], text[], text[], bigint[], bytea[], text[], text[], bigint[],
  bigint[], text[], text[], bigint[], boolean[], text[], bigint[], bytea[], bigint);
create function {schema}.write_batch(
  p_epoch bigint, p_now bigint, p_journal_sequence bigint, p_journal bytea, p_digest bigint,
  p_state_kind text[], p_state_key text[], p_state_value bytea[],
  p_gone_kind text[], p_gone_key text[],
  p_out_sequence bigint[], p_out_topic text[], p_out_key text[], p_out_version bigint[], p_out_tombstone boolean[],
  p_out_value bytea[], p_out_newest boolean[],
  p_intent_id text[], p_intent_kind text[], p_intent_key text[], p_intent_sequence bigint[], p_intent_payload bytea[],
  p_intents_done text[],
  p_cursor_topic text[], p_cursor_partition bigint[], p_cursor_next bigint[], p_cursor_mark bigint[],
  p_cursor_history text[],
  p_seen_topic text[], p_seen_key text[], p_seen_version bigint[], p_seen_gone boolean[],
  p_request_id text[], p_request_at bigint[], p_request_reply bytea[], p_request_oldest bigint)
returns boolean language plpgsql as $body$
begin
  if p_journal_sequence > 0 then
    insert into {schema}.journal (sequence, epoch, now, digest, bytes)
    values (p_journal_sequence, p_epoch, p_now, p_digest, p_journal);
  end if;
  if cardinality(p_state_key) > 0 then
    insert into {schema}.state as s (kind, key, value)
    select * from unnest(p_state_kind, p_state_key, p_state_value)
    on conflict (kind, key) do update set value = excluded.value;
  end if;
  if cardinality(p_gone_key) > 0 then
    delete from {schema}.state s using unnest(p_gone_kind, p_gone_key) as g(kind, key)
    where s.kind = g.kind and s.key = g.key;
  end if;
  if cardinality(p_out_sequence) > 0 then
    insert into {schema}.outbox (sequence, topic, key, key_version, tombstone, value)
    select * from unnest(p_out_sequence, p_out_topic, p_out_key, p_out_version, p_out_tombstone, p_out_value);
    insert into {schema}.published as p (sequence, topic, key, key_version, tombstone, value)
    select o.sequence, o.topic, o.key, o.key_version, o.tombstone, o.value
    from unnest(p_out_sequence, p_out_topic, p_out_key, p_out_version, p_out_tombstone, p_out_value, p_out_newest)
      as o(sequence, topic, key, key_version, tombstone, value, newest)
    where o.newest
    on conflict (topic, key) do update set sequence = excluded.sequence, key_version = excluded.key_version,
      tombstone = excluded.tombstone, value = excluded.value, at = excluded.at;
  end if;
  if cardinality(p_intent_id) > 0 then
    insert into {schema}.intent (id, kind, key, sequence, payload)
    select * from unnest(p_intent_id, p_intent_kind, p_intent_key, p_intent_sequence, p_intent_payload)
    on conflict (id) do nothing;
  end if;
  if cardinality(p_intents_done) > 0 then
    delete from {schema}.intent where id = any(p_intents_done);
  end if;
  if cardinality(p_cursor_topic) > 0 then
    insert into {schema}.cursor as c (topic, partition, next_offset, mark, history)
    select * from unnest(p_cursor_topic, p_cursor_partition, p_cursor_next, p_cursor_mark, p_cursor_history)
    on conflict (topic, partition) do update set next_offset = excluded.next_offset, mark = excluded.mark,
      history = excluded.history;
  end if;
  if cardinality(p_seen_key) > 0 then
    insert into {schema}.seen as s (topic, key, version, gone)
    select * from unnest(p_seen_topic, p_seen_key, p_seen_version, p_seen_gone)
    on conflict (topic, key) do update set version = excluded.version, gone = excluded.gone, at = excluded.at;
  end if;
  if cardinality(p_request_id) > 0 then
    delete from {schema}.request where at < p_request_oldest;
    insert into {schema}.request as r (id, at, reply)
    select * from unnest(p_request_id, p_request_at, p_request_reply)
    on conflict (id) do update set at = excluded.at, reply = excluded.reply;
  end if;
  update {schema}.leader set
    commits = commits + 1,
    journal_sequence = greatest(journal_sequence, p_journal_sequence),
    outbox_sequence = greatest(outbox_sequence, p_out_sequence[cardinality(p_out_sequence)]),
    intent_sequence = greatest(intent_sequence, p_intent_sequence[cardinality(p_intent_sequence)]),
    last_now = greatest(last_now, p_now)
  where epoch = p_epoch;
  return found;
end $body$;
)sql";

// A message that was read again after newer ones: all applied messages are of its log (LogAnchor).
constexpr const char* kAnchors = R"sql(
alter table {schema}.cursor add column anchor_offset bigint not null default -1,
  add column anchor_hash bigint not null default 0;
)sql";

}  // namespace

const std::vector<pg::Migration>& common_migrations() {
  static const std::vector<pg::Migration> steps{
      {1, "tables", kTables}, {2, "write_batch", kWriteBatch}, {3, "forget", kForget},  {4, "lease", kLease},
      {5, "audit", kAudit},   {6, "history", kHistory},        {7, "anchors", kAnchors}};
  return steps;
}

}  // namespace qm::store
