-- Which exceptions let calls through, who answers for them, and until when?
-- One that is used until its last day is one whose policy has to be mended.
SELECT
  exception->>'id' AS exception,
  exception->>'owner' AS owner,
  max(exception->>'expires') AS expires,
  count(*) AS times,
  count(DISTINCT session) AS sessions,
  min(ts) AS first,
  max(ts) AS last
FROM (SELECT session, ts, unnest(json_extract(detail, '$.exceptions[*]')) AS exception FROM record)
GROUP BY exception->>'id', exception->>'owner'
ORDER BY times DESC, exception, owner;
