-- The view `record` over lines of a record, for the queries beside this file. DuckDB 1.1 or later.
--
--   duckdb -c "SET VARIABLE files = '/path/to/audit/audit-*.jsonl'" \
--          -f audit/queries/from-jsonl.sql -f audit/queries/denials.sql
--
-- `files` is a path with wildcards, a list of paths, or an address: `s3://bucket/*/audit-*.jsonl`
-- (after `INSTALL httpfs; LOAD httpfs; CREATE SECRET (TYPE s3, PROVIDER credential_chain);`).
--
-- A line that is no JSON is left out, a field that is not there or of another type is null, and a text
-- that the record hides is its JSON: `{"hmac": …, "len": …}`. Kinds that are new are kept.
CREATE OR REPLACE TEMP VIEW record AS
SELECT
  -- The id of a line: what the next line has in `prev`.
  sha256(json::VARCHAR) AS id,
  try_cast(json->>'v' AS BIGINT) AS v,
  try_cast(json->>'seq' AS BIGINT) AS seq,
  try_cast(json->>'ts' AS TIMESTAMP) AS ts,
  try_cast(json->>'mono' AS BIGINT) AS mono,
  json->>'boot' AS boot,
  json->>'kind' AS kind,
  json->>'host' AS host,
  try_cast(json->>'uid' AS BIGINT) AS uid,
  try_cast(json->>'pid' AS BIGINT) AS pid,
  json->>'event' AS event,
  json->>'dialect' AS dialect,
  json->>'session' AS session,
  json->>'call' AS call,
  json->>'agent' AS agent,
  json->>'parent' AS parent,
  try_cast(json->>'depth' AS BIGINT) AS depth,
  json->>'entity' AS entity,
  json->>'cwd' AS cwd,
  json->>'tool' AS tool,
  nullif(json->'args_hmac', 'null') AS args_hmac,
  nullif(json->'args_redacted', 'null') AS args_redacted,
  nullif(json->'requests', 'null') AS requests,
  coalesce((json->'truncated') = 'true', false) AS truncated,
  json->>'decision' AS decision,
  nullif(json->'reasons', 'null') AS reasons,
  json->>'would_decide' AS would_decide,
  nullif(json->'obligations', 'null') AS obligations,
  nullif(json->'redactions', 'null') AS redactions,
  json->>'policy_digest' AS policy_digest,
  json->>'engine_version' AS engine_version,
  try_cast(json->>'latency_us' AS BIGINT) AS latency_us,
  json->>'error_class' AS error_class,
  nullif(json->'trace', 'null') AS trace,
  nullif(json->'detail', 'null') AS detail,
  json->>'prev' AS prev
FROM read_ndjson_objects(getvariable('files'), ignore_errors = true)
WHERE json_type(json) = 'OBJECT';
