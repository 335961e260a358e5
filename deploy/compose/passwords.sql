-- For the compose file only: all passwords are public, and the database is reachable only from its network.
do $passwords$
declare
  service text;
begin
  foreach service in array array['admission', 'placement', 'autoscaler', 'telemetry', 'cost', 'bus', 'report', 'audit'] loop
    execute format('alter role %I password %L', 'qm_' || service, 'quartermaster');
  end loop;
end $passwords$;
