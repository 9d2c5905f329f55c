-- Which results belong to no call that was judged, and allowed or asked about, before them?
-- Such a tool ran without the gate: a hook was not installed, did not answer in time, or was taken away.
-- A call is known by the host's id where it has one; else by session, tool and arguments.
WITH judged AS (
  SELECT host, uid, coalesce(session, '') AS session, call, tool, coalesce(args_hmac::VARCHAR, '') AS args, seq
  FROM record
  WHERE kind IN ('tool_use', 'permission', 'mcp_call') AND decision IN ('allow', 'ask')
), by_call AS (
  SELECT host, uid, session, call, min(seq) AS seq
  FROM judged
  WHERE call IS NOT NULL
  GROUP BY host, uid, session, call
), by_arguments AS (
  SELECT host, uid, session, tool, args, min(seq) AS seq, min(seq) FILTER (call IS NULL) AS seq_without_call
  FROM judged
  GROUP BY host, uid, session, tool, args
), result AS (
  SELECT *, coalesce(session, '') AS of_session, coalesce(args_hmac::VARCHAR, '') AS args
  FROM record
  WHERE kind = 'result'
)
SELECT result.ts, result.host, result.session, result.tool, result.call, result.args_redacted, result.id
FROM result
LEFT JOIN by_call
  ON by_call.host = result.host AND by_call.uid = result.uid AND by_call.session = result.of_session
  AND by_call.call = result.call
LEFT JOIN by_arguments
  ON by_arguments.host = result.host AND by_arguments.uid = result.uid AND by_arguments.session = result.of_session
  AND by_arguments.tool = result.tool AND by_arguments.args = result.args
WHERE NOT coalesce(by_call.seq < result.seq, false)
  AND NOT coalesce(
    CASE WHEN result.call IS NULL THEN by_arguments.seq ELSE by_arguments.seq_without_call END < result.seq,
    false
  )
ORDER BY result.ts, result.seq;
