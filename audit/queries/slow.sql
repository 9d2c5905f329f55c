-- Which calls waited longest for their answer, and how slow is that beside the others of their event?
-- `latency_us` counts from the start of the process to the record.
WITH judged AS (
  SELECT *, percent_rank() OVER (PARTITION BY event ORDER BY latency_us) AS rank
  FROM record
  WHERE latency_us > 0
)
SELECT
  latency_us,
  round(100 * rank, 1) AS slower_than_percent,
  ts,
  host,
  event,
  tool,
  decision,
  error_class,
  json_array_length(requests) AS requests,
  id
FROM judged
ORDER BY latency_us DESC, id
LIMIT 50;
