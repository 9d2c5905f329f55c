-- The view `record` over what `copilot-bridge audit export --format parquet` wrote, for the queries
-- beside this file. DuckDB 1.1 or later.
--
--   duckdb -c "SET VARIABLE files = 'record-*.parquet'" \
--          -f audit/queries/from-parquet.sql -f audit/queries/denials.sql
--
-- `files` is a path with wildcards, a list of paths, or an address: `s3://bucket/*/*.parquet`
-- (after `INSTALL httpfs; LOAD httpfs; CREATE SECRET (TYPE s3, PROVIDER credential_chain);`).
-- Columns and types are those of from-jsonl.sql.
CREATE OR REPLACE TEMP VIEW record AS
SELECT
  id, v, seq,
  -- Without the time zone: it is UTC, and no session setting is to change what an hour is.
  make_timestamp(epoch_us(ts)) AS ts,
  mono, boot, kind, host, uid, pid, event, dialect, session, call, agent, parent, depth, entity, cwd, tool,
  args_hmac::JSON AS args_hmac,
  args_redacted::JSON AS args_redacted,
  requests::JSON AS requests,
  truncated, decision,
  reasons::JSON AS reasons,
  would_decide,
  obligations::JSON AS obligations,
  redactions::JSON AS redactions,
  policy_digest, engine_version, latency_us, error_class,
  trace::JSON AS trace,
  detail::JSON AS detail,
  prev
FROM read_parquet(getvariable('files'));
