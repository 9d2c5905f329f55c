-- What happened in one session, in its order?
-- `SET VARIABLE session = '…'` names it; without that, it is the session of the newest line that has one.
SELECT
  seq,
  ts,
  kind,
  tool,
  decision,
  json_extract_string(reasons, '$[*].id') AS policies,
  args_redacted,
  latency_us,
  id
FROM record
WHERE session = coalesce(
  getvariable('session')::VARCHAR,
  (SELECT session FROM record WHERE session IS NOT NULL ORDER BY ts DESC NULLS LAST, seq DESC LIMIT 1)
)
ORDER BY host, ts, seq;
