//! Judgements that are only recorded: left over from a rollout, or meant.

use crate::engine::bundle::Mode;
use crate::policy::{Code, Problem};
use crate::workbench::lint::Rule;
use crate::workbench::lint::desk::Desk;

pub(super) const RULE: Rule = Rule {
    code: Code::MonitorOnly,
    find,
};

fn find(desk: &Desk<'_>, found: &mut Vec<Problem>) {
    for subject in desk.policies.iter().filter(|subject| !subject.binds()) {
        let problem = Problem::note(
            Code::MonitorOnly,
            format!(
                "the policy `{}` decides nothing: it is only recorded",
                subject.id()
            ),
        )
        .help("remove `@mode(\"monitor\")` once the record shows what it would have done");
        found.push(subject.problem(problem, "mode"));
    }
    if desk.bundle.settings.mode == Mode::Monitor {
        let problem = Problem::note(
            Code::MonitorOnly,
            "no policy decides anything, but faults and what protects the bridge",
        )
        .help("write `mode = \"enforce\"` once the record shows what would have happened");
        found.push(desk.setting(problem, "bridge.toml", &["mode"]));
    }
}
