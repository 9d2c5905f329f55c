-- Which paths are denied most?
-- Of a call about several paths all are counted: the record does not say which of them was the reason.
SELECT
  coalesce(nullif(resource->>'resolved', ''), resource->>'given') AS path,
  request->>'action' AS action,
  count(DISTINCT id) AS denials,
  string_agg(DISTINCT tool, ' ' ORDER BY tool) AS tools,
  max(ts) AS last
FROM (
  SELECT id, tool, ts, request, request->'resource' AS resource
  FROM (SELECT id, tool, ts, unnest(json_extract(requests, '$[*]')) AS request FROM record WHERE decision = 'deny')
)
WHERE resource->>'type' = 'path'
GROUP BY path, action
ORDER BY denials DESC, path, action
LIMIT 50;
