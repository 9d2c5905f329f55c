-- Which results belong to no call that was judged, and allowed or asked about, before them?
-- Such a tool ran without the gate: a hook was not installed, did not answer in time, or was taken away.
-- A call is known by the host's id where it has one; else by session, tool and arguments.
SELECT result.ts, result.host, result.session, result.tool, result.call, result.args_redacted, result.id
FROM record AS result
WHERE result.kind = 'result'
  AND NOT EXISTS (
    FROM record AS judged
    WHERE judged.kind IN ('tool_use', 'permission', 'mcp_call')
      AND judged.decision IN ('allow', 'ask')
      AND judged.host = result.host
      AND judged.session IS NOT DISTINCT FROM result.session
      AND judged.seq < result.seq
      AND CASE
        WHEN judged.call IS NOT NULL AND result.call IS NOT NULL THEN judged.call = result.call
        ELSE judged.tool = result.tool AND judged.args_hmac IS NOT DISTINCT FROM result.args_hmac
      END
  )
ORDER BY result.ts, result.seq;
