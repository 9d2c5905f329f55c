-- What would be denied, or asked about, if no policy were only monitored?
SELECT
  would_decide,
  decision,
  kind,
  tool,
  count(*) AS times,
  count(DISTINCT session) AS sessions,
  max(ts) AS last
FROM record
WHERE would_decide <> decision
GROUP BY would_decide, decision, kind, tool
ORDER BY times DESC, would_decide, decision, kind, tool;
