//! Calls that pass although they cannot be recorded.

use crate::engine::bundle::OnFailure;
use crate::policy::{Code, Problem};
use crate::workbench::lint::Rule;
use crate::workbench::lint::desk::Desk;

pub(super) const RULE: Rule = Rule {
    code: Code::Unrecorded,
    find,
};

fn find(desk: &Desk<'_>, found: &mut Vec<Problem>) {
    if desk.bundle.settings.audit.on_failure == OnFailure::Allow {
        let problem = Problem::warning(
            Code::Unrecorded,
            "calls pass that cannot be recorded: who fills the disk goes unseen",
        )
        .help("write `on_failure = \"deny\"`");
        found.push(desk.setting(problem, "bridge.toml", &["audit", "on_failure"]));
    }
}
