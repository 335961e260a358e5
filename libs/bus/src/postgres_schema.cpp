#include "postgres_schema.hpp"

namespace qm::bus {
namespace {

// Offsets are assigned under the lock of the partition's row, which is held until the producer's commit: so they are
// dense and become visible in order, and a reader at offset n never misses a message below n.
constexpr const char* kTables = R"sql(
create table {schema}.topic (
  id bigint generated always as identity primary key, name text collate "C" not null unique, partitions int not null
);
create table {schema}.partition (
  topic bigint, partition bigint, first_offset bigint not null default 0, next_offset bigint not null default 0,
  primary key (topic, partition)
) with (fillfactor = 10, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
create table {schema}.message (
  topic bigint, partition bigint, "offset" bigint, key text not null, value bytea not null,
  at timestamptz not null default now(), primary key (topic, partition, "offset")
);
create sequence {schema}.member_id;
create table {schema}.reader_group (name text primary key, generation bigint not null);
create table {schema}.member (
  id bigint primary key, reader_group text not null, topics text[] not null, generation bigint not null default 0,
  timeout_ms bigint not null, beat timestamptz not null default clock_timestamp()
) with (fillfactor = 20);
create index on {schema}.member (reader_group);
create table {schema}.progress (
  reader_group text, topic text, partition bigint, next_offset bigint not null, at timestamptz not null default now(),
  primary key (reader_group, topic, partition)
) with (fillfactor = 50);
)sql";

// A group's row is locked before members are added or removed, and never after: so heartbeats and changes cannot
// deadlock.
constexpr const char* kGroups = R"sql(
create function {schema}.change_group(p_group text, p_channel text) returns void language sql as $body$
  insert into {schema}.reader_group as g (name, generation) values (p_group, 1)
  on conflict (name) do update set generation = g.generation + 1;
  select pg_notify(p_channel, '');
$body$;

create function {schema}.join_group(p_group text, p_channel text, p_topics text[], p_timeout_ms bigint)
returns bigint language plpgsql as $body$
declare
  me bigint;
begin
  perform {schema}.change_group(p_group, p_channel);
  insert into {schema}.member (id, reader_group, topics, timeout_ms)
  values (nextval('{schema}.member_id'), p_group, p_topics, p_timeout_ms) returning id into me;
  return me;
end $body$;

create function {schema}.leave_group(p_group text, p_channel text, p_id bigint) returns void language plpgsql as $body$
begin
  perform {schema}.change_group(p_group, p_channel);
  delete from {schema}.member where id = p_id;
end $body$;

-- Records that a member lives, and its generation, for which others may wait; removes those that were
-- silent for too long.
create function {schema}.beat(p_group text, p_channel text, p_id bigint, p_adopted bigint, out generation bigint,
                              out alive boolean) language plpgsql as $body$
begin
  if exists (select from {schema}.member m where m.reader_group = p_group and m.id <> p_id
             and m.beat < clock_timestamp() - m.timeout_ms * interval '1 ms') then
    perform from {schema}.reader_group g where g.name = p_group for update;
    delete from {schema}.member m where m.reader_group = p_group and m.id <> p_id
      and m.beat < clock_timestamp() - m.timeout_ms * interval '1 ms';
    if found then
      perform {schema}.change_group(p_group, p_channel);
    end if;
  end if;
  if exists (select from {schema}.member m where m.id = p_id and m.generation <> p_adopted) then
    perform pg_notify(p_channel, '');
  end if;
  update {schema}.member m set beat = clock_timestamp(), generation = p_adopted where m.id = p_id;
  alive := found;
  select g.generation into generation from {schema}.reader_group g where g.name = p_group;
end $body$;
)sql";

// A member that was added with `locked` holds the advisory lock of its id for the life of its session, and sessions
// end with their process: so the other members detect its death without waiting for its timeout, and a restarted
// process removes its previous member. The timeout remains for processes that hang or lost their network.
constexpr const char* kPlaces = R"sql(
alter table {schema}.member add column instance text not null default '', add column locked boolean not null default false;

create function {schema}.lock_of(p_id bigint) returns int language sql immutable as $body$
  select (p_id % 2147483647)::int
$body$;

create function {schema}.gone(m {schema}.member) returns boolean language sql volatile as $body$
  select m.beat < clock_timestamp() - m.timeout_ms * interval '1 ms' or m.locked and not exists (
    select from pg_locks l where l.locktype = 'advisory' and l.classid = 1902994037 and l.objsubid = 2 and l.granted
      and l.objid::bigint = {schema}.lock_of(m.id)
      and l.database = (select d.oid from pg_database d where d.datname = current_database()))
$body$;

-- Joins, in the place of the member of the same instance and of this reader's own former self.
create function {schema}.take_place(p_group text, p_channel text, p_topics text[], p_timeout_ms bigint,
                                    p_instance text, p_former bigint) returns bigint language plpgsql as $body$
declare
  me bigint := nextval('{schema}.member_id');
begin
  perform pg_advisory_unlock_all();    -- of a former place
  perform pg_advisory_lock(1902994037, {schema}.lock_of(me));
  perform {schema}.change_group(p_group, p_channel);
  delete from {schema}.member m where m.reader_group = p_group
    and (m.id = p_former or p_instance <> '' and m.instance = p_instance or {schema}.gone(m));
  insert into {schema}.member (id, reader_group, topics, timeout_ms, instance, locked)
  values (me, p_group, p_topics, p_timeout_ms, p_instance, true);
  return me;
end $body$;

create or replace function {schema}.beat(p_group text, p_channel text, p_id bigint, p_adopted bigint,
                                         out generation bigint, out alive boolean) language plpgsql as $body$
begin
  if exists (select from {schema}.member m where m.reader_group = p_group and m.id <> p_id and {schema}.gone(m)) then
    perform from {schema}.reader_group g where g.name = p_group for update;
    delete from {schema}.member m where m.reader_group = p_group and m.id <> p_id and {schema}.gone(m);
    if found then
      perform {schema}.change_group(p_group, p_channel);
    end if;
  end if;
  if exists (select from {schema}.member m where m.id = p_id and m.generation <> p_adopted) then
    perform pg_notify(p_channel, '');
  end if;
  update {schema}.member m set beat = clock_timestamp(), generation = p_adopted where m.id = p_id;
  alive := found;
  select g.generation into generation from {schema}.reader_group g where g.name = p_group;
end $body$;
)sql";

// A member without others beats rarely, so its beat may be older. A member that joins gives it a new beat: from then on its
// timeout counts, and the notification of the group lets it adopt the generation and beat as often as others.
constexpr const char* kAlone = R"sql(
alter table {schema}.member add column alone boolean not null default false;

create or replace function {schema}.gone(m {schema}.member) returns boolean language sql volatile as $body$
  select m.beat < clock_timestamp() - m.timeout_ms * interval '1 ms' - case when m.alone then interval '60 s' else '0' end
    or m.locked and not exists (
    select from pg_locks l where l.locktype = 'advisory' and l.classid = 1902994037 and l.objsubid = 2 and l.granted
      and l.objid::bigint = {schema}.lock_of(m.id)
      and l.database = (select d.oid from pg_database d where d.datname = current_database()))
$body$;

create or replace function {schema}.take_place(p_group text, p_channel text, p_topics text[], p_timeout_ms bigint,
                                               p_instance text, p_former bigint) returns bigint
language plpgsql as $body$
declare
  me bigint := nextval('{schema}.member_id');
begin
  perform pg_advisory_unlock_all();    -- of a former place
  perform pg_advisory_lock(1902994037, {schema}.lock_of(me));
  perform {schema}.change_group(p_group, p_channel);
  delete from {schema}.member m where m.reader_group = p_group
    and (m.id = p_former or p_instance <> '' and m.instance = p_instance or {schema}.gone(m));
  update {schema}.member m set beat = clock_timestamp(), alone = false where m.reader_group = p_group and m.alone;
  insert into {schema}.member (id, reader_group, topics, timeout_ms, instance, locked)
  values (me, p_group, p_topics, p_timeout_ms, p_instance, true);
  return me;
end $body$;

create or replace function {schema}.beat(p_group text, p_channel text, p_id bigint, p_adopted bigint,
                                         out generation bigint, out alive boolean) language plpgsql as $body$
begin
  if exists (select from {schema}.member m where m.reader_group = p_group and m.id <> p_id and {schema}.gone(m)) then
    perform from {schema}.reader_group g where g.name = p_group for update;
    delete from {schema}.member m where m.reader_group = p_group and m.id <> p_id and {schema}.gone(m);
    if found then
      perform {schema}.change_group(p_group, p_channel);
    end if;
  end if;
  if exists (select from {schema}.member m where m.id = p_id and m.generation <> p_adopted) then
    perform pg_notify(p_channel, '');
  end if;
  update {schema}.member m set beat = clock_timestamp(), generation = p_adopted,
    alone = not exists (select from {schema}.member o where o.reader_group = p_group and o.id <> p_id)
  where m.id = p_id;
  alive := found;
  select g.generation into generation from {schema}.reader_group g where g.name = p_group;
end $body$;
)sql";

}  // namespace

const std::vector<pg::Migration>& bus_migrations() {
  static const std::vector<pg::Migration> steps{
      {1, "log", kTables}, {2, "groups", kGroups}, {3, "places", kPlaces}, {4, "alone", kAlone}};
  return steps;
}

}  // namespace qm::bus
