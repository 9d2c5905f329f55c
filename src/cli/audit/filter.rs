//! What a verb asks of lines of the record, on the command line.

use jiff::Timestamp;

use super::time::{since, until};
use crate::audit::query::Filter;
use crate::audit::record::v1::Kind;
use crate::engine::decision::Effect;

/// How times are written, and what cannot be asked about.
pub(super) const HELP: &str = "Times are UTC: `2026-01-02`, `2026-01-02T03:04:05Z`, or how long ago: `90m`, `7d`, `2w`.\n\
    A text that the record hides is found by `audit lookup`.";

/// What a line has to have; all that is said has to hold.
#[derive(Debug, clap::Args)]
pub(super) struct Wanted {
    /// Not older
    #[arg(long, value_name = "TIME", value_parser = since)]
    since: Option<Timestamp>,
    /// Older; a day counts as a whole
    #[arg(long, value_name = "TIME", value_parser = until)]
    until: Option<Timestamp>,
    /// Of that session
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Of that agent, or one that it started
    #[arg(long, value_name = "ID")]
    agent: Option<String>,
    /// Of an agent that works for that entity
    #[arg(long, value_name = "NAME")]
    entity: Option<String>,
    /// Of that tool, by its canonical name
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// With that decision
    #[arg(long, value_parser = ["allow", "ask", "deny"])]
    decision: Option<String>,
    /// Decided by that policy, with or without its layer
    #[arg(long, value_name = "ID")]
    policy: Option<String>,
    /// Let through by that exception, with or without its layer
    #[arg(long, value_name = "ID")]
    exception: Option<String>,
    /// About a path or address that has this text in it
    #[arg(long, value_name = "TEXT")]
    path: Option<String>,
    /// Written on that machine
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// Of that kind
    #[arg(long, value_parser = Kind::ALL.map(Kind::name))]
    kind: Option<String>,
}

impl Wanted {
    /// The same, to be asked of lines.
    pub(super) fn filter(&self) -> Filter {
        Filter {
            since: self.since,
            until: self.until,
            session: self.session.clone(),
            agent: self.agent.clone(),
            entity: self.entity.clone(),
            tool: self.tool.clone(),
            host: self.host.clone(),
            decision: self.decision.as_deref().map(|word| match word {
                "allow" => Effect::Allow,
                "ask" => Effect::Ask,
                _ => Effect::Deny,
            }),
            kind: self.kind.as_deref().and_then(Kind::named),
            policy: self.policy.clone(),
            exception: self.exception.clone(),
            path: self.path.clone(),
        }
    }
}
