//! What is counted, in the text format of Prometheus (OpenMetrics 1.0).

use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use super::refusals::Cause;
use crate::engine::decision::Effect;

/// The content type of [`Metrics::text`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Upper ends of buckets, in seconds: from the fastest judgement to the deadline, and on to what calls
/// take.
const BUCKETS: [f64; 14] = [
    0.000_05, 0.000_1, 0.000_2, 0.000_5, 0.001, 0.002, 0.005, 0.01, 0.05, 0.2, 1.0, 5.0, 30.0,
    120.0,
];

type Labelled = Family<[(&'static str, &'static str); 1], Counter>;

/// The counts of one process.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    calls: Labelled,
    refusals: Labelled,
    gate: Histogram,
    execution: Histogram,
    pub(super) connections: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        let metrics = Self {
            registry: Registry::default(),
            calls: Family::default(),
            refusals: Family::default(),
            gate: Histogram::new(BUCKETS),
            execution: Histogram::new(BUCKETS),
            connections: Gauge::default(),
        };
        let mut registry = Registry::with_prefix("copilot_bridge");
        registry.register(
            "calls",
            "Calls of tools and reads of resources, by what the gate said of them",
            metrics.calls.clone(),
        );
        registry.register_with_unit(
            "gate",
            "How long one way through the gate took, with its line in the record",
            Unit::Seconds,
            metrics.gate.clone(),
        );
        registry.register_with_unit(
            "execution",
            "How long what was let through took",
            Unit::Seconds,
            metrics.execution.clone(),
        );
        registry.register(
            "refusals",
            "Requests and connections that were refused before the gate, by cause",
            metrics.refusals.clone(),
        );
        registry.register(
            "connections",
            "Connections that are open",
            metrics.connections.clone(),
        );
        for effect in [Effect::Allow, Effect::Ask, Effect::Deny] {
            drop(metrics.calls.get_or_create(&[("decision", word(effect))]));
        }
        for cause in Cause::ALL {
            drop(metrics.refusals.get_or_create(&[("cause", cause.name())]));
        }
        Self {
            registry,
            ..metrics
        }
    }
}

impl Metrics {
    /// A call was judged, before it happened.
    pub fn judged(&self, effect: Effect) {
        self.calls
            .get_or_create(&[("decision", word(effect))])
            .inc();
    }

    /// Something passed the gate, before or after it happened.
    pub fn passed(&self, took: Duration) {
        self.gate.observe(took.as_secs_f64());
    }

    /// What was let through is done.
    pub fn executed(&self, took: Duration) {
        self.execution.observe(took.as_secs_f64());
    }

    pub(super) fn refused(&self, cause: Cause) {
        self.refusals
            .get_or_create(&[("cause", cause.name())])
            .inc();
    }

    /// All of it as text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

const fn word(effect: Effect) -> &'static str {
    match effect {
        Effect::Allow => "allow",
        Effect::Ask => "ask",
        Effect::Deny => "deny",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_is_told() {
        let metrics = Metrics::default();
        metrics.judged(Effect::Deny);
        metrics.judged(Effect::Deny);
        metrics.passed(Duration::from_micros(70));
        metrics.executed(Duration::from_secs(2));
        metrics.refused(Cause::Origin);
        let text = metrics.text();
        for line in [
            "copilot_bridge_calls_total{decision=\"allow\"} 0",
            "copilot_bridge_calls_total{decision=\"deny\"} 2",
            "copilot_bridge_gate_seconds_bucket{le=\"0.00005\"} 0",
            "copilot_bridge_gate_seconds_bucket{le=\"0.0001\"} 1",
            "copilot_bridge_execution_seconds_sum 2.0",
            "copilot_bridge_refusals_total{cause=\"origin\"} 1",
            "copilot_bridge_refusals_total{cause=\"host\"} 0",
            "copilot_bridge_connections 0",
        ] {
            assert!(
                text.lines().any(|found| found == line),
                "{line} is not in\n{text}"
            );
        }
        assert!(text.ends_with("# EOF\n"), "{text}");
    }
}
