-- Which policies deny, how often, and for how many sessions?
-- A denial that several policies decided counts for each of them.
SELECT
  reason->>'id' AS policy,
  count(*) AS denials,
  count(DISTINCT session) AS sessions,
  min(ts) AS first,
  max(ts) AS last
FROM (
  SELECT session, ts, unnest(json_extract(reasons, '$[*]')) AS reason
  FROM record
  WHERE decision = 'deny'
)
GROUP BY policy
ORDER BY denials DESC, policy;
