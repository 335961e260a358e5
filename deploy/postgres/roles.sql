-- Roles and schemas of a suite in one database: each service owns its own schema and cannot read another's.
--
--   psql -d DATABASE -f deploy/postgres/roles.sql      by a superuser, or the owner of the database with CREATEROLE
--   alter role qm_admission password '...';            for each role that logs in, from your secret store
--
-- Safe to repeat; repeat it after an upgrade. Shards other than the default have their own schemas
-- (admission_NAME): name them in qm.shards, as in  PGOPTIONS="-c qm.shards=west,east" psql ...
--
--   qm_admission qm_placement qm_autoscaler qm_telemetry qm_cost   --postgres of the service of that name
--   qm_bus                                                         --bus postgres:... of every service, without Kafka
--   qm_report                                                      Grafana: only the views of schema report
--   qm_audit                                                       auditors: only the view report.audit, with callers and requests
do $roles$
declare
  service text;
  shard text;
  space text;
  trails text;
  me text := current_user;
begin
  foreach service in array array['admission', 'placement', 'autoscaler', 'telemetry', 'cost', 'bus', 'report', 'audit'] loop
    if not exists (select from pg_roles where rolname = 'qm_' || service) then
      execute format('create role %I login', 'qm_' || service);
    end if;
    execute format('grant connect, temporary on database %I to %I', current_database(), 'qm_' || service);
  end loop;
  execute format('revoke all on database %I from public', current_database());
  revoke all on schema public from public;

  -- A service creates its schema and its views in report itself, at its first start and after an upgrade.
  foreach service in array array['admission', 'placement', 'autoscaler', 'telemetry', 'cost'] loop
    execute format('grant create on database %I to %I', current_database(), 'qm_' || service);
    execute format('grant %I to %I', 'qm_' || service, me);  -- to hand a schema over
    foreach shard in array array[''] || string_to_array(nullif(current_setting('qm.shards', true), ''), ',') loop
      space := service || case shard when '' then '' else '_' || shard end;
      if to_regnamespace(quote_ident(space)) is null then
        execute format('create schema %I authorization %I', space, 'qm_' || service);
      end if;
      execute format('revoke all on schema %I from public', space);
    end loop;
  end loop;
  execute format('grant create on database %I to qm_bus', current_database());
  execute format('grant qm_bus to %I', me);
  if to_regnamespace('bus') is null then
    create schema bus authorization qm_bus;
  end if;
  revoke all on schema bus from public;

  if to_regnamespace('report') is null then
    create schema report;
  end if;
  revoke all on schema report from public;
  grant usage on schema report to qm_report, qm_audit;
  foreach service in array array['admission', 'placement', 'autoscaler', 'telemetry', 'cost'] loop
    execute format('grant usage, create on schema report to %I', 'qm_' || service);
    execute format('alter default privileges for role %I in schema report grant select on tables to qm_report',
                   'qm_' || service);
  end loop;
  grant select on all tables in schema report to qm_report;

  -- One view of the audit trails of all services that already have one.
  select string_agg(format('select %L::text as schema, t.* from %I.audit t', n.nspname, n.nspname), ' union all '
                    order by n.nspname)
    into trails
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where c.relname = 'audit' and c.relkind = 'r'
      and n.nspname ~ '^(admission|placement|autoscaler|telemetry|cost)(_|$)';
  if trails is not null then
    execute 'create or replace view report.audit as ' || trails;
    revoke all on report.audit from public, qm_report;
    grant select on report.audit to qm_audit;
  end if;
end $roles$;
