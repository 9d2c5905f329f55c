//! `approvers.toml`: who may approve what is asked, and what an approval takes. The base layer's
//! alone: whoever may name approvers may approve.

use globset::Glob;
use toml::Spanned;

use super::bridge::origin;
use super::table::{Key, Merge, Reader, Table, key};
use crate::engine::approver::{Approver, Demand, Unverified};
use crate::engine::bundle::Settings;
use crate::keys::public::PublicKey;
use crate::policy::diagnostic::{Code, Problem, quote};

/// The keys of the file.
pub const KEYS: &[Key] = &[
    key("format", Merge::PerFile),
    key("approvals", Merge::BaseOnly),
    key("approver", Merge::BaseOnly),
];

/// The keys of `[approvals]`.
pub const APPROVALS: &[Key] = &[
    key("minutes", Merge::BaseOnly),
    key("required", Merge::BaseOnly),
    key("unverified", Merge::BaseOnly),
];

/// The keys of `[[approver]]`.
pub const APPROVER: &[Key] = &[
    key("name", Merge::PerFile),
    key("key", Merge::PerFile),
    key("groups", Merge::PerFile),
    key("policies", Merge::PerFile),
    key("entities", Merge::PerFile),
    key("sessions", Merge::PerFile),
];

/// An approval is valid for a day at most.
pub const LONGEST_MINUTES: u32 = 24 * 60;

/// What an approval may count that no key signed, and the words for it.
pub const UNVERIFIED: [(&str, Unverified); 2] = [
    ("refuse", Unverified::Refuse),
    ("accept", Unverified::Accept),
];

/// Lets the file speak.
pub(super) fn apply(settings: &mut Settings, root: Table<'_>, reader: &mut Reader<'_>) {
    root.check(KEYS, reader);
    if !reader.base {
        return;
    }
    let tables = root.tables("approver", reader);
    for table in tables {
        if let Some(approver) = approver(table, settings, reader) {
            settings.approvers.all.push(approver);
        }
    }
    if root.has("approver") {
        origin(settings, "approver", reader);
    }
    if let Some(table) = root.table("approvals", reader) {
        apply_approvals(settings, table, reader);
    }
}

fn apply_approvals(settings: &mut Settings, table: Table<'_>, reader: &mut Reader<'_>) {
    table.check(APPROVALS, reader);
    if let Some(minutes) = table.number("minutes", 1..=LONGEST_MINUTES, reader) {
        settings.approvers.minutes = minutes.into_inner();
        origin(settings, "approvals.minutes", reader);
    }
    if let Some(unverified) = table.choice("unverified", &UNVERIFIED, reader) {
        settings.approvers.unverified = unverified.into_inner();
        origin(settings, "approvals.unverified", reader);
    }
    if let Some(required) = table.number("required", 1..=u32::from(Demand::MOST), reader) {
        let unverified = settings.approvers.unverified == Unverified::Accept;
        let people = settings.approvers.all.len().max(usize::from(unverified));
        if usize::try_from(*required.get_ref()).is_ok_and(|required| required > people) {
            let problem = Problem::error(
                Code::BadValue,
                format!("this file names {people} approvers: nobody could approve anything"),
            );
            reader.push(required.span(), problem);
        }
        settings.approvers.required = u8::try_from(required.into_inner()).unwrap_or(Demand::MOST);
        origin(settings, "approvals.required", reader);
    }
}

fn approver(table: Table<'_>, settings: &Settings, reader: &mut Reader<'_>) -> Option<Approver> {
    table.check(APPROVER, reader);
    let name = table.required_text("name", reader);
    let line = table.required_text("key", reader);
    let [groups, policies, entities, sessions] =
        ["groups", "policies", "entities", "sessions"].map(|name| table.texts(name, reader));
    let known = &settings.approvers.all;
    let (name, line) = (name?, line?);
    if let Some(problem) = odd_name(name.get_ref(), "name") {
        reader.push(name.span(), problem);
    } else if known.iter().any(|one| one.name == *name.get_ref()) {
        let problem = Problem::error(
            Code::DuplicateId,
            format!("there is another approver `{}`", quote(name.get_ref())),
        );
        reader.push(name.span(), problem);
    }
    let key: PublicKey = match line.get_ref().parse() {
        Ok(key) => key,
        Err(error) => {
            let problem = Problem::error(Code::BadValue, error.to_string())
                .help("`copilot-bridge key new FILE` makes a key and prints this line");
            reader.push(line.span(), problem);
            return None;
        }
    };
    let key = key.to_string();
    // With one key for two names, one person would be two.
    if let Some(other) = known.iter().find(|one| one.key == key) {
        let problem = Problem::error(
            Code::DuplicateId,
            format!("this is the key of `{}` too", quote(&other.name)),
        );
        reader.push(line.span(), problem);
    }
    for group in &groups {
        if let Some(problem) = odd_name(group.get_ref(), "group") {
            reader.push(group.span(), problem);
        }
    }
    for glob in policies.iter().chain(&entities).chain(&sessions) {
        if Glob::new(glob.get_ref()).is_err() {
            let problem = Problem::error(
                Code::BadPattern,
                format!("`{}` is no glob", quote(glob.get_ref())),
            );
            reader.push(glob.span(), problem);
        }
    }
    Some(Approver {
        name: name.into_inner(),
        key,
        groups: plain(groups),
        policies: plain(policies),
        entities: plain(entities),
        sessions: plain(sessions),
    })
}

/// Names stand in annotations, in reasons and on command lines.
fn odd_name(name: &str, what: &str) -> Option<Problem> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic());
    let odd = name.len() > 64 || !starts || !name.chars().all(fits);
    odd.then(|| {
        Problem::error(
            Code::BadValue,
            format!(
                "a {what} starts with a letter and is made of letters, digits, `-`, `_` and `.`"
            ),
        )
    })
}

fn plain(texts: Vec<Spanned<String>>) -> Vec<String> {
    texts.into_iter().map(Spanned::into_inner).collect()
}
