-- How many decisions are there in each hour, and of which sort?
SELECT
  date_trunc('hour', ts) AS hour,
  count(*) AS decisions,
  count(*) FILTER (decision = 'allow') AS allow,
  count(*) FILTER (decision = 'ask') AS ask,
  count(*) FILTER (decision = 'deny') AS deny,
  count(*) FILTER (error_class IS NOT NULL) AS broken
FROM record
WHERE kind IN ('tool_use', 'permission', 'mcp_call', 'mcp_tool_call', 'result', 'prompt', 'fault')
GROUP BY hour
ORDER BY hour;
