-- Which policies, and which version of the program, were in force when and where?
-- A new row begins wherever either changes: policies that come back have a row for each time.
WITH changes AS (
  SELECT
    *,
    CASE
      WHEN (policy_digest, engine_version)
        IS NOT DISTINCT FROM lag((policy_digest, engine_version)) OVER (PARTITION BY host, uid ORDER BY ts, seq)
      THEN 0 ELSE 1
    END AS change
  FROM record
  WHERE policy_digest IS NOT NULL
), spans AS (
  SELECT *, sum(change) OVER (PARTITION BY host, uid ORDER BY ts, seq) AS span
  FROM changes
)
SELECT
  host,
  uid,
  any_value(policy_digest) AS policy_digest,
  any_value(engine_version) AS engine_version,
  min(ts) AS first,
  max(ts) AS last,
  count(*) AS lines,
  count(*) FILTER (decision = 'deny') AS denials
FROM spans
GROUP BY host, uid, span
ORDER BY first, host, uid;
