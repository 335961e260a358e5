-- For the compose file only: everybody's password is known, and the database is reached from its network alone.
do $passwords$
declare
  service text;
begin
  foreach service in array array['admission', 'placement', 'autoscaler', 'telemetry', 'cost', 'bus', 'report', 'audit'] loop
    execute format('alter role %I password %L', 'qm_' || service, 'quartermaster');
  end loop;
end $passwords$;
