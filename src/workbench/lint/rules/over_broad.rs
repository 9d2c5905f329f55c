//! A permit that allows what nobody listed, where nothing else stops it.

use crate::engine::action::Action;
use crate::engine::bundle::Verdict;
use crate::engine::request::ResourceType;
use crate::policy::{Code, Problem};
use crate::workbench::lint::Rule;
use crate::workbench::lint::desk::{Case, Desk};
use crate::workbench::lint::formula::{Formula, Literal, Test};

pub(super) const RULE: Rule = Rule {
    code: Code::OverBroad,
    find,
};

fn find(desk: &Desk<'_>, found: &mut Vec<Problem>) {
    for subject in &desk.policies {
        if subject.policy.verdict != Verdict::Permit {
            continue;
        }
        let all = Action::ALL
            .into_iter()
            .all(|action| subject.policy.actions.contains(action));
        let always = |case: &Case| case.holds == Formula::Known(true);
        let text = if all && !subject.cases.is_empty() && subject.cases.iter().all(always) {
            format!("`{}` permits everything", subject.id())
        } else if let Some(case) = subject.cases.iter().find(|case| broad(desk, case)) {
            format!(
                "`{}` permits {}, and no policy stops what nobody listed",
                subject.id(),
                what(case)
            )
        } else {
            continue;
        };
        let problem = Problem::warning(Code::OverBroad, text).help(
            "name the resource's type and what it may be, or add a `forbid` for what is not listed",
        );
        found.push(subject.problem(problem, "id"));
    }
}

fn broad(desk: &Desk<'_>, case: &Case) -> bool {
    let counts = matches!(
        (case.env.action, case.env.resource),
        (Action::Read | Action::Write, ResourceType::Path)
            | (
                Action::Write
                    | Action::Shell
                    | Action::Url
                    | Action::Mcp
                    | Action::CustomTool
                    | Action::Hook
                    | Action::Extension,
                _
            )
    );
    counts
        && case.holds.under(&unlisted) == Some(true)
        && !desk.policies.iter().any(|other| {
            other.policy.verdict != Verdict::Permit
                && other.binds()
                && other
                    .cases
                    .iter()
                    .any(|stop| stop.env == case.env && stop.holds.under(&unlisted) != Some(false))
        })
}

fn what(case: &Case) -> &'static str {
    match (case.env.action, case.env.resource) {
        (Action::Read, _) => "reading any path",
        (Action::Write, ResourceType::Path) => "writing any path",
        (Action::Write, _) => "any tool that writes",
        (Action::Shell, ResourceType::Command) => "any command",
        (Action::Shell, _) => "any shell",
        (Action::Url, ResourceType::Url) => "any address",
        (Action::Url, _) => "any tool that fetches",
        (Action::Mcp, _) => "any tool of any MCP server",
        (Action::Hook, _) => "any change of hooks",
        (Action::Extension, _) => "any change of extensions",
        _ => "any tool",
    }
}

/// What is true of something that no policy and no table knows, and that has nothing odd about it.
fn unlisted(literal: &Literal) -> Option<bool> {
    let subject = &*literal.subject;
    match &literal.test {
        Test::Is(text) => match subject {
            "resource.fault" | "resource.code" => Some(text.is_empty()),
            "context.event" | "context.operation" | "context.interactive" | "principal.host" => {
                None
            }
            _ => Some(false),
        },
        Test::Has(_) | Test::Like(_) => Some(false),
        Test::Empty => Some(true),
        Test::Below(_) => None,
        Test::True => match subject {
            "resource.certain" => Some(true),
            "resource.inside"
            | "resource.link"
            | "resource.known"
            | "resource.harmless"
            | "resource.private"
            | "context.placeholder"
            | "context.phi" => Some(false),
            "context.depth < context.depth_limit" => Some(true),
            _ => None,
        },
    }
}
