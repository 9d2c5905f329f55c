-- What was taken out, by which rule, and where did it stand?
-- `secrets` counts different ones: the same secret has the same fingerprint.
SELECT
  found->>'rule' AS rule,
  kind,
  sum((found->>'count')::BIGINT)::BIGINT AS times,
  count(DISTINCT id) AS lines,
  count(DISTINCT found->>'fingerprint') AS secrets,
  count(DISTINCT session) AS sessions,
  string_agg(DISTINCT tool, ' ' ORDER BY tool) AS tools,
  max(ts) AS last
FROM (SELECT id, kind, session, tool, ts, unnest(json_extract(redactions, '$[*]')) AS found FROM record)
GROUP BY rule, kind
ORDER BY times DESC, rule, kind;
