//! What the tests of this room share: layers made of texts, and problems made comparable.

use super::diagnostic::Problem;
use super::layer::Layer;
use super::load::{Checked, check_sources};
use super::source::Source;

/// A policy that makes a base layer complete.
pub(super) const PERMIT: &str = "@id(\"p\") @reason(\"r\") permit(principal, action, resource);";

/// The files of a user's layer as the base, and of a workspace's layer if there are any.
pub(super) fn layers(user: &[(&str, &str)], workspace: &[(&str, &str)]) -> Vec<Source> {
    let source = |layer, dir, files: &[(&str, &str)]| {
        let files = files.iter();
        let files = files.map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
        Source::new(layer, dir, files)
    };
    let mut sources = vec![source(Layer::User, "user", user)];
    if !workspace.is_empty() {
        sources.push(source(Layer::Workspace, "ws", workspace));
    }
    sources
}

/// Checks layers.
pub(super) fn check(user: &[(&str, &str)], workspace: &[(&str, &str)]) -> Checked {
    check_sources(&layers(user, workspace))
}

/// Each problem as its code, the text that is underlined, and the message.
pub(super) fn shown(problems: &[Problem]) -> Vec<String> {
    let line = |problem: &Problem| {
        let under = problem.underlined().unwrap_or("?");
        format!("{} [{under}] {}", problem.code, problem.message)
    };
    problems.iter().map(line).collect()
}
