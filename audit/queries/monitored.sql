-- What would be denied, or asked about, if no policy were only monitored, and by which?
-- What an exception covers is not among it: see exceptions.sql.
SELECT
  policy->>'id' AS policy,
  would_decide,
  kind,
  tool,
  count(*) AS times,
  count(DISTINCT session) AS sessions,
  max(ts) AS last
FROM (
  SELECT session, ts, kind, tool, would_decide, unnest(json_extract(detail, '$.monitored[*]')) AS policy
  FROM record
  WHERE would_decide <> decision
)
GROUP BY policy->>'id', would_decide, kind, tool
ORDER BY times DESC, policy, would_decide, kind, tool;
