-- The contract of a chain, for platforms in other languages: what `provisioning.chain` does, as
-- SQL for PostgreSQL. Each statement is one transaction of its own at READ COMMITTED, after
-- SET LOCAL lock_timeout = '500ms'. No row back means that nothing was changed.
--
-- All conditions stand in the UPDATE's own WHERE: that is what lets exactly one of a chain and a
-- sweep through. Do not read first and write later, and never save a whole document.

-- begin: a new attempt, unless one is in flight. Gives its name; keep it, verbatim. A chain that may
-- take longer than a sweep's threshold stamps its end, in the same form, at provision.deadline.
UPDATE $sites SET $metadata = coalesce(nullif($metadata, 'null'), '{}') - 'terminal_failure'
    || jsonb_build_object('provision',
         coalesce(nullif($metadata -> 'provision', 'null'), '{}')
           - '{step,step_at,run_id,upstream_id,upstream_by,own_deadline}'::text[]
           - CASE WHEN $metadata #>> '{provision,own_deadline}' = $metadata #>> '{provision,deadline}'
                  THEN '{deadline}'::text[] ELSE '{}' END
         || jsonb_build_object('started_at',
              to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24":"MI":"SS.US"Z"')))
    || CASE WHEN jsonb_typeof($metadata -> 'health_check') = 'object' THEN jsonb_build_object(
         'health_check', ($metadata -> 'health_check') - 'completed_at') ELSE '{}' END
 WHERE $id = :site_id$present
   AND ($metadata #>> '{provision,started_at}' IS NULL
     OR $metadata #>> '{terminal_failure}' IS NOT NULL
     OR $metadata #>> '{health_check,completed_at}' IS NOT NULL)
   AND coalesce(jsonb_typeof($metadata), 'null') IN ('object', 'null')
   AND coalesce(jsonb_typeof($metadata -> 'provision'), 'null') IN ('object', 'null')
   AND coalesce(jsonb_typeof($metadata -> 'health_check'), 'null') IN ('object', 'null')
RETURNING $metadata #>> '{provision,started_at}' AS attempt;

-- step: before each step. No row: the attempt is over, so stop.
UPDATE $sites SET $metadata = $metadata || jsonb_build_object('provision',
         ($metadata -> 'provision') || jsonb_build_object('step', :step::text, 'step_at',
           to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24":"MI":"SS.US"Z"')))
 WHERE $id = :site_id$present
   AND $metadata #>> '{provision,started_at}' = :attempt
   AND $metadata #>> '{terminal_failure}' IS NULL
   AND $metadata #>> '{health_check,completed_at}' IS NULL
RETURNING $id;

-- made: what this attempt had made at your upstream. A teardown of the attempt names that.
UPDATE $sites SET $metadata = $metadata || jsonb_build_object('provision',
         ($metadata -> 'provision') || jsonb_build_object('upstream_id', :upstream_id::text,
           'upstream_by', jsonb_build_object('site', $id::text, 'attempt', :attempt::text)))
 WHERE $id = :site_id$present
   AND $metadata #>> '{provision,started_at}' = :attempt
   AND $metadata #>> '{terminal_failure}' IS NULL
   AND $metadata #>> '{health_check,completed_at}' IS NULL
RETURNING $id;

-- complete: at the end. No row: the attempt was over before, so tell nobody that the site is live.
UPDATE $sites SET $metadata = $metadata || jsonb_build_object('health_check',
         CASE WHEN jsonb_typeof($metadata -> 'health_check') = 'object'
              THEN $metadata -> 'health_check' ELSE '{}' END
         || jsonb_build_object('completed_at',
              to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24":"MI":"SS.US"Z"')))
 WHERE $id = :site_id$present
   AND $metadata #>> '{provision,started_at}' = :attempt
   AND $metadata #>> '{terminal_failure}' IS NULL
   AND $metadata #>> '{health_check,completed_at}' IS NULL
RETURNING $id;

-- fail: the mark, the ledger row and the webhook owed, in one statement. The next sweep sends it.
-- Give a reason without NUL characters, of at most 1,000 characters: it is for operators, and the
-- merchant is told a fixed sentence. Both ids are UUIDs of version 5 in the namespace
-- f3673c27-e076-4a7f-adeb-fdaa741b5c39: of the text "<site_id>\n<attempt>" the failure's, of
-- "<site_id>\n<attempt>\nwebhook" the notice's, where \n is one line feed.
WITH mark AS (
  UPDATE $sites SET $metadata = $metadata || jsonb_build_object('terminal_failure', jsonb_build_object(
         'failed_at', to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24":"MI":"SS.US"Z"'),
         'reason', 'chain: Setting up the site failed.',
         'source', 'chain',
         'started_at', $metadata #>> '{provision,started_at}',
         'flow_run_id', NULL))
   WHERE $id = :site_id$present
     AND $metadata #>> '{provision,started_at}' = :attempt
     AND $metadata #>> '{terminal_failure}' IS NULL
     AND $metadata #>> '{health_check,completed_at}' IS NULL
  RETURNING $id AS id, $domain::text AS domain, left($metadata #>> '{provision,webhook}', 2049) AS url,
            left($metadata #>> '{provision,webhook_secret}', 1025) AS secret
), entry AS (
  INSERT INTO $terminal_failures (id, site_id, domain, attempt, reason, detail, source)
  SELECT :failure_id::uuid, id::text, left(domain, 255), :attempt,
         'chain: Setting up the site failed.', :reason::text, 'chain' FROM mark
  ON CONFLICT DO NOTHING
  RETURNING id, domain, attempt, failed_at, source
), owed AS (
  INSERT INTO $notices (id, failure_id, kind, url, secret, body)
  SELECT :notice_id::uuid, entry.id, 'webhook', url, CASE WHEN secret ~ '\S' THEN secret END,
         convert_to(jsonb_build_object(
           'type', 'site.provision_failed',
           'timestamp', to_char(failed_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24":"MI":"SS.US"Z"'),
           'data', jsonb_build_object('failure_id', entry.id, 'site_id', mark.id,
             'domain', entry.domain, 'attempt', attempt,
             'reason', 'Setting up the site failed.', 'source', source))::text, 'UTF8')
    FROM entry CROSS JOIN mark
   WHERE url ~ '\S'
  ON CONFLICT DO NOTHING
)
SELECT id FROM mark;
