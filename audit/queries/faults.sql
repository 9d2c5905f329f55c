-- What was broken: events that could not be read, policies that could not be used, answers that came late?
SELECT
  coalesce(error_class, kind) AS what,
  host,
  event,
  dialect,
  count(*) AS times,
  max(ts) AS last,
  arg_max(coalesce(detail->>'error', detail->>'fault'), ts) AS newest
FROM record
WHERE error_class IS NOT NULL OR kind IN ('fault', 'recovered', 'superseded', 'lost')
GROUP BY what, host, event, dialect
ORDER BY times DESC, what, host, event, dialect;
