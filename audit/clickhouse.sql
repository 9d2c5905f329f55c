-- The records of a fleet in ClickHouse: one table of lines, from JSON lines or from Parquet.
--
--   clickhouse-client --multiquery < audit/clickhouse.sql
--
-- Columns are those of `copilot-bridge audit export --format parquet`; what is nested is JSON in a String,
-- for `JSONExtractString(reasons, 1, 'id')` and its like. A text that the record hides is its JSON.

CREATE TABLE IF NOT EXISTS record
(
    -- SHA-256 of the line: what the next line of its machine has in `prev`.
    id String,
    v Nullable(UInt8),
    seq UInt64,
    ts DateTime64(6, 'UTC'),
    mono Nullable(UInt64),
    boot LowCardinality(Nullable(String)),
    kind LowCardinality(String),
    host LowCardinality(String),
    uid Nullable(UInt32),
    pid Nullable(UInt32),
    event LowCardinality(Nullable(String)),
    dialect LowCardinality(Nullable(String)),
    session Nullable(String),
    call Nullable(String),
    agent Nullable(String),
    parent Nullable(String),
    depth Nullable(UInt32),
    entity LowCardinality(Nullable(String)),
    cwd Nullable(String),
    tool LowCardinality(Nullable(String)),
    args_hmac Nullable(String),
    args_redacted Nullable(String),
    requests Nullable(String),
    truncated Bool,
    decision LowCardinality(Nullable(String)),
    reasons Nullable(String),
    would_decide LowCardinality(Nullable(String)),
    obligations Nullable(String),
    redactions Nullable(String),
    policy_digest LowCardinality(Nullable(String)),
    engine_version LowCardinality(Nullable(String)),
    latency_us Nullable(UInt64),
    error_class LowCardinality(Nullable(String)),
    trace Nullable(String),
    detail Nullable(String),
    prev Nullable(String)
)
-- A line that is sent twice is one line: duplicates go when parts are merged, and for `FINAL` at once.
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMM(ts)
ORDER BY (host, ts, seq, id);
-- To forget what is older than a year; keep it in object storage first:
--   ALTER TABLE record MODIFY TTL toDateTime(ts) + INTERVAL 1 YEAR;

-- Lines go in here as they are, and into `record` from here.
CREATE TABLE IF NOT EXISTS record_line (line String) ENGINE = Null;

CREATE MATERIALIZED VIEW IF NOT EXISTS record_from_line TO record AS
SELECT
    lower(hex(SHA256(line))) AS id,
    JSONExtract(line, 'v', 'Nullable(UInt8)') AS v,
    JSONExtractUInt(line, 'seq') AS seq,
    parseDateTime64BestEffortOrZero(JSONExtractString(line, 'ts'), 6, 'UTC') AS ts,
    JSONExtract(line, 'mono', 'Nullable(UInt64)') AS mono,
    JSONExtract(line, 'boot', 'Nullable(String)') AS boot,
    JSONExtractString(line, 'kind') AS kind,
    JSONExtractString(line, 'host') AS host,
    JSONExtract(line, 'uid', 'Nullable(UInt32)') AS uid,
    JSONExtract(line, 'pid', 'Nullable(UInt32)') AS pid,
    JSONExtract(line, 'event', 'Nullable(String)') AS event,
    JSONExtract(line, 'dialect', 'Nullable(String)') AS dialect,
    JSONExtract(line, 'session', 'Nullable(String)') AS session,
    JSONExtract(line, 'call', 'Nullable(String)') AS call,
    JSONExtract(line, 'agent', 'Nullable(String)') AS agent,
    JSONExtract(line, 'parent', 'Nullable(String)') AS parent,
    JSONExtract(line, 'depth', 'Nullable(UInt32)') AS depth,
    JSONExtract(line, 'entity', 'Nullable(String)') AS entity,
    JSONExtract(line, 'cwd', 'Nullable(String)') AS cwd,
    JSONExtract(line, 'tool', 'Nullable(String)') AS tool,
    nullIf(nullIf(JSONExtractRaw(line, 'args_hmac'), 'null'), '') AS args_hmac,
    nullIf(nullIf(JSONExtractRaw(line, 'args_redacted'), 'null'), '') AS args_redacted,
    nullIf(nullIf(JSONExtractRaw(line, 'requests'), 'null'), '') AS requests,
    JSONExtractBool(line, 'truncated') AS truncated,
    JSONExtract(line, 'decision', 'Nullable(String)') AS decision,
    nullIf(nullIf(JSONExtractRaw(line, 'reasons'), 'null'), '') AS reasons,
    JSONExtract(line, 'would_decide', 'Nullable(String)') AS would_decide,
    nullIf(nullIf(JSONExtractRaw(line, 'obligations'), 'null'), '') AS obligations,
    nullIf(nullIf(JSONExtractRaw(line, 'redactions'), 'null'), '') AS redactions,
    JSONExtract(line, 'policy_digest', 'Nullable(String)') AS policy_digest,
    JSONExtract(line, 'engine_version', 'Nullable(String)') AS engine_version,
    JSONExtract(line, 'latency_us', 'Nullable(UInt64)') AS latency_us,
    JSONExtract(line, 'error_class', 'Nullable(String)') AS error_class,
    nullIf(nullIf(JSONExtractRaw(line, 'trace'), 'null'), '') AS trace,
    nullIf(nullIf(JSONExtractRaw(line, 'detail'), 'null'), '') AS detail,
    JSONExtract(line, 'prev', 'Nullable(String)') AS prev
FROM record_line
WHERE isValidJSON(line) AND JSONType(line) = 'Object';

-- Lines of a machine, and lines in object storage:
--   clickhouse-client -q 'INSERT INTO record_line FORMAT LineAsString' < audit-2026-03-02.jsonl
--   INSERT INTO record_line SELECT line FROM s3('https://bucket.s3.amazonaws.com/*/audit-*.jsonl', 'LineAsString');
-- From a collector that wraps each line as {"line": "…"}:
--   INSERT INTO record_line FORMAT JSONEachRow
-- Parquet:
--   INSERT INTO record SELECT * FROM s3('https://bucket.s3.amazonaws.com/*/record.parquet', 'Parquet');
--
-- Denials by policy:
--   SELECT arrayJoin(JSONExtractArrayRaw(ifNull(reasons, '[]'))) AS reason, JSONExtractString(reason, 'id') AS policy,
--          count() AS denials FROM record FINAL WHERE decision = 'deny' GROUP BY reason ORDER BY denials DESC;
