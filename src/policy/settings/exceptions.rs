//! `exceptions.toml`: which policies are left out for a while, for whom, and why.

use std::ops::Range;
use std::sync::Arc;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use toml::Spanned;

use super::containment::paths;
use super::table::{Key, Merge, Reader, Table, key};
use super::{Care, read};
use crate::engine::action::Action;
use crate::engine::bundle::{Policy, Verdict};
use crate::engine::containment::GUARD;
use crate::engine::entity::Entities;
use crate::engine::exception::{CommandName, Exception, HostName, Scope, Subject};
use crate::engine::request::ResourceType;
use crate::policy::cedar::Located;
use crate::policy::diagnostic::{Code, Problem, alternatives, place, quote, suggest};
use crate::policy::layer::Layer;
use crate::policy::source::{Source, SourceFile};

/// The name of the file.
pub const FILE: &str = "exceptions.toml";

/// The keys of the file.
pub const KEYS: &[Key] = &[
    key("format", Merge::PerFile),
    key("exception", Merge::Union),
];

/// The keys of `[[exception]]`.
pub const EXCEPTION: &[Key] = &[
    key("id", Merge::PerFile),
    key("policies", Merge::PerFile),
    key("reason", Merge::PerFile),
    key("owner", Merge::PerFile),
    key("expires", Merge::PerFile),
    key("actions", Merge::PerFile),
    key("tools", Merge::PerFile),
    key("paths", Merge::PerFile),
    key("commands", Merge::PerFile),
    key("hosts", Merge::PerFile),
    key("workspaces", Merge::PerFile),
    key("sessions", Merge::PerFile),
    key("entities", Merge::PerFile),
    key("agents", Merge::PerFile),
];

/// The keys that say which requests an exception is for: at least one of them has to be there.
pub const SCOPE: [&str; 9] = [
    "actions",
    "tools",
    "paths",
    "commands",
    "hosts",
    "workspaces",
    "sessions",
    "entities",
    "agents",
];

/// The keys of which one exception has one at most: a request is about one thing.
pub const SUBJECTS: [&str; 3] = ["paths", "commands", "hosts"];

/// A person should hear so long before an exception ends.
const SOON: SignedDuration = SignedDuration::from_hours(14 * 24);

/// What lasts longer should be a policy.
const LONG: SignedDuration = SignedDuration::from_hours(366 * 24);

/// The longest text of an exception, in characters.
pub const LONGEST: usize = 500;

/// One entry, and where its parts stand.
struct Draft {
    file: Arc<SourceFile>,
    exception: Exception,
    /// The policies as they were written.
    policies: Vec<Spanned<String>>,
    subject: Option<&'static str>,
    expires: Range<usize>,
}

/// The exceptions of all layers, the base first. `policies` are those of all layers; nothing where they
/// cannot be read, so that nobody is told of names that nobody knows.
pub(in crate::policy) fn load(
    sources: &[Source],
    entities: &Entities,
    policies: Option<&[Located]>,
    care: Care<'_>,
    problems: &mut Vec<Problem>,
) -> Vec<Exception> {
    let thorough = matches!(care, Care::Thorough);
    let mut all: Vec<Draft> = Vec::new();
    for (index, source) in sources.iter().enumerate() {
        let Some(file) = source.file(FILE) else {
            continue;
        };
        let mut reader = Reader {
            file,
            base: index == 0,
            thorough,
            problems,
        };
        read(file, &mut reader, |root, reader| {
            apply(&mut all, entities, root, reader);
        });
    }
    let Some(policies) = policies else {
        return Vec::new();
    };
    all.into_iter()
        .map(|draft| draft.finish(sources, policies, thorough, problems))
        .collect()
}

fn apply(all: &mut Vec<Draft>, entities: &Entities, root: Table<'_>, reader: &mut Reader<'_>) {
    root.check(KEYS, reader);
    for table in root.tables("exception", reader) {
        table.check(EXCEPTION, reader);
        if reader.file.layer == Layer::Workspace {
            let problem = Problem::error(
                Code::Loosens,
                "a workspace's policies cannot make exceptions",
            )
            .help("write it into the user's exceptions.toml, with `workspaces = […]`");
            reader.push(table.span(), problem);
            continue;
        }
        let Some(draft) = draft(entities, table, reader) else {
            continue;
        };
        let id = &draft.exception.id;
        if all.iter().any(|known| known.exception.id == *id) {
            let name = id.split_once(':').map_or(id.as_str(), |(_, name)| name);
            let problem = Problem::error(
                Code::DuplicateId,
                format!("there is another exception `{}`", quote(name)),
            );
            reader.push(table.span_of("id"), problem);
            continue;
        }
        all.push(draft);
    }
}

/// Reads one entry. Every problem of it is noted.
fn draft(entities: &Entities, table: Table<'_>, reader: &mut Reader<'_>) -> Option<Draft> {
    let id = table.required_text("id", reader);
    let id = id.filter(|id| is_id(id, reader));
    let reason = sentence(table, "reason", reader);
    let owner = sentence(table, "owner", reader);
    let policies = list(table, "policies", reader);
    if !table.has("policies") {
        table.missing("policies", reader);
    }
    let expires = expiry(table, reader);
    let (scope, subject) = scope(entities, table, reader)?;
    let (line, _) = place(&reader.file.text, table.span().start);
    Some(Draft {
        file: Arc::clone(reader.file),
        exception: Exception {
            id: format!("{}:{}", reader.layer(), id?.into_inner()),
            file: reader.file.path.clone(),
            line,
            policies: Vec::new(),
            reason: reason?,
            owner: owner?,
            expires: expires?.as_second(),
            scope,
        },
        policies: policies?,
        subject,
        expires: table.span_of("expires"),
    })
}

fn is_id(id: &Spanned<String>, reader: &mut Reader<'_>) -> bool {
    let text = id.get_ref();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let good = text.len() <= LONGEST && text.chars().all(plain);
    if !good {
        let problem = Problem::error(
            Code::BadValue,
            "an id is made of letters, digits, `-`, `_` and `.`",
        );
        reader.push(id.span(), problem);
    }
    good
}

/// A line of plain text that has to be there.
fn sentence(table: Table<'_>, name: &str, reader: &mut Reader<'_>) -> Option<String> {
    let text = table.required_text(name, reader)?;
    let wrong = if text.get_ref().trim().is_empty() {
        format!("`{name}` says nothing")
    } else if text.get_ref().contains(char::is_control) {
        format!("`{name}` has to be one line of plain text")
    } else if text.get_ref().chars().count() > LONGEST {
        format!("`{name}` may have {LONGEST} characters")
    } else {
        return Some(text.into_inner());
    };
    reader.push(text.span(), Problem::error(Code::BadValue, wrong));
    None
}

/// A list that is not empty if it is there: an empty one would mean nothing, or everything.
fn list(table: Table<'_>, name: &str, reader: &mut Reader<'_>) -> Option<Vec<Spanned<String>>> {
    if !table.has(name) {
        return None;
    }
    let before = reader.problems.len();
    let texts = table.texts(name, reader);
    if reader.problems.len() > before {
        return None;
    }
    let empty = texts.iter().find(|text| text.get_ref().trim().is_empty());
    let span = match (texts.first(), empty) {
        (None, _) => table.span_of(name),
        (_, Some(empty)) => empty.span(),
        _ => return Some(texts),
    };
    let problem = Problem::error(Code::BadValue, format!("`{name}` names nothing here"));
    reader.push(span, problem);
    None
}

/// When the exception ends. A day counts as a whole, in UTC.
fn expiry(table: Table<'_>, reader: &mut Reader<'_>) -> Option<Timestamp> {
    let time = table.datetime("expires", reader)?;
    let text = time.get_ref();
    let parsed = match text.parse::<Timestamp>() {
        Ok(instant) => Some(instant),
        Err(_) => text
            .parse::<Date>()
            .ok()
            .filter(|_| !text.contains(['T', ' ', ':']))
            .and_then(|day| day.tomorrow().ok())
            .and_then(|day| day.to_zoned(TimeZone::UTC).ok())
            .map(|zoned| zoned.timestamp()),
    };
    if parsed.is_none() {
        let problem = Problem::error(
            Code::BadValue,
            "`expires` is no day, and no time with a zone",
        )
        .help("write a day, `2026-01-31`, or a time, `2026-01-31T18:00:00Z`");
        reader.push(time.span(), problem);
    }
    parsed
}

fn scope(
    entities: &Entities,
    table: Table<'_>,
    reader: &mut Reader<'_>,
) -> Option<(Scope, Option<&'static str>)> {
    if !SCOPE.into_iter().any(|name| table.has(name)) {
        let problem = Problem::error(
            Code::MissingKey,
            "the exception does not say which requests it is for",
        )
        .help(format!("add at least one of {}", alternatives(SCOPE)));
        reader.push(table.span(), problem);
        return None;
    }
    let mut subjects = SUBJECTS.into_iter().filter(|name| table.has(name));
    let subject = subjects.next();
    if let (Some(first), Some(second)) = (subject, subjects.next()) {
        let problem = Problem::error(
            Code::BadValue,
            format!("no request is about both `{first}` and `{second}`"),
        )
        .help("make two exceptions of it");
        reader.push(table.span_of(second), problem);
        return None;
    }
    let before = reader.problems.len();
    let mut scope = Scope {
        actions: each(table, "actions", reader, action),
        tools: each(table, "tools", reader, |text, _| Some(text.into_inner())),
        sessions: each(table, "sessions", reader, session),
        entities: each(table, "entities", reader, |text, reader| {
            entity(entities, &text, reader)
        }),
        agents: each(table, "agents", reader, |text, _| Some(text.into_inner())),
        ..Scope::default()
    };
    if let Some(texts) = list(table, "workspaces", reader) {
        scope.workspaces = paths(texts, reader);
    }
    scope.subject = match subject {
        Some("paths") => Subject::Paths(
            list(table, "paths", reader)
                .map(|texts| paths(texts, reader))
                .unwrap_or_default(),
        ),
        Some("commands") => Subject::Commands(each(table, "commands", reader, command)),
        Some("hosts") => Subject::Hosts(each(table, "hosts", reader, host)),
        _ => Subject::Anything,
    };
    // What was not understood would make the scope wider.
    let whole = reader.problems.len() == before && !scope.is_empty();
    whole.then_some((scope, subject))
}

fn each<T>(
    table: Table<'_>,
    name: &str,
    reader: &mut Reader<'_>,
    read: impl Fn(Spanned<String>, &mut Reader<'_>) -> Option<T>,
) -> Vec<T> {
    let texts = list(table, name, reader).unwrap_or_default();
    texts
        .into_iter()
        .filter_map(|text| read(text, reader))
        .collect()
}

fn action(text: Spanned<String>, reader: &mut Reader<'_>) -> Option<Action> {
    let word = text.get_ref();
    let found = Action::from_name(word);
    if found.is_none() {
        let known = Action::ALL.map(Action::name);
        let help =
            suggest(word, known).unwrap_or_else(|| format!("known: {}", alternatives(known)));
        let problem = Problem::error(Code::BadValue, format!("`{}` is no action", quote(word)));
        reader.push(text.span(), problem.help(help));
    }
    found
}

fn session(text: Spanned<String>, reader: &mut Reader<'_>) -> Option<String> {
    if text.get_ref() == "unknown" {
        let problem = Problem::error(
            Code::BadValue,
            "`unknown` is every session that a host does not name",
        );
        reader.push(text.span(), problem);
        return None;
    }
    Some(text.into_inner())
}

fn entity(entities: &Entities, text: &Spanned<String>, reader: &mut Reader<'_>) -> Option<String> {
    let word = text.get_ref();
    if let Some(known) = entities.named(word) {
        return Some(known.name.clone());
    }
    let problem = Problem::error(
        Code::BadValue,
        format!("entities.toml has no entity `{}`", quote(word)),
    );
    let names = entities.all.iter().map(|entity| entity.name.as_str());
    reader.push(
        text.span(),
        match suggest(word, names) {
            Some(help) => problem.help(help),
            None => problem,
        },
    );
    None
}

fn command(text: Spanned<String>, reader: &mut Reader<'_>) -> Option<CommandName> {
    let mut words = text.get_ref().split_whitespace();
    if let (Some(program), subcommand, None) = (words.next(), words.next(), words.next())
        && !program.contains('/')
        && !text.get_ref().contains(['*', '?'])
    {
        return Some(CommandName {
            program: program.to_owned(),
            subcommand: subcommand.map(str::to_owned),
        });
    }
    let problem = Problem::error(
        Code::BadValue,
        "a command is a program without its folder, and maybe its subcommand",
    )
    .help("such as `git push`; options and arguments are for a policy to look at");
    reader.push(text.span(), problem);
    None
}

fn host(text: Spanned<String>, reader: &mut Reader<'_>) -> Option<HostName> {
    let word = text.get_ref();
    let (name, below) = match word.strip_prefix("*.") {
        Some(name) => (name, true),
        None => (word.as_str(), false),
    };
    let good = !name.is_empty()
        && !name.starts_with('.')
        && !name.contains(|c: char| c.is_whitespace() || "*?/@\\".contains(c));
    if !good {
        let problem = Problem::error(Code::BadValue, "this names no host")
            .help("such as `docs.example.com`, or `*.example.com` for all below it");
        reader.push(text.span(), problem);
        return None;
    }
    Some(HostName {
        name: name.to_lowercase(),
        below,
    })
}

impl Draft {
    /// The exception with the policies that it names.
    fn finish(
        mut self,
        sources: &[Source],
        policies: &[Located],
        thorough: bool,
        problems: &mut Vec<Problem>,
    ) -> Exception {
        let names = std::mem::take(&mut self.policies);
        for name in &names {
            match self.resolve(name, sources, policies) {
                Ok(Some(policy)) => {
                    self.exception.policies.push(policy.id.clone());
                    if thorough {
                        problems.extend(self.without_effect(name, policy));
                    }
                }
                // Of a layer that is not here, or has no such policy here.
                Ok(None) => {}
                Err(problem) => problems.push(problem.at(&self.file, name.span())),
            }
        }
        if thorough {
            problems.extend(self.look_at_expiry(Timestamp::now()));
        }
        self.exception
    }

    /// The policy of that name: the layer's own, else of a layer above. One of a layer below is named with
    /// its layer, and need not be there: it is another one in each workspace.
    fn resolve<'p>(
        &self,
        name: &Spanned<String>,
        sources: &[Source],
        policies: &'p [Located],
    ) -> Result<Option<&'p Policy>, Problem> {
        let word = name.get_ref();
        let own = self.file.layer;
        let all = || policies.iter().map(|located| &located.policy);
        let of = |layer: Layer, id: &str| {
            let wanted = format!("{}:{id}", layer.prefix());
            all().find(|policy| policy.id == wanted)
        };
        let above = || {
            let above = sources.iter().map(|source| source.layer);
            above.take_while(move |layer| *layer != own)
        };
        let found = match word.split_once(':') {
            None => of(own, word).or_else(|| above().find_map(|layer| of(layer, word))),
            Some((prefix, id)) => {
                let layers = [Layer::Organisation, Layer::User, Layer::Workspace];
                let layer = layers.into_iter().find(|layer| layer.prefix() == prefix);
                let Some(layer) = layer else {
                    return Err(Problem::error(
                        Code::UnknownPolicy,
                        format!("there is no layer `{}`", quote(prefix)),
                    )
                    .help(format!("it is {}", alternatives(layers.map(Layer::prefix)))));
                };
                let found = of(layer, id);
                if found.is_none()
                    && (layer > own || (layer < own && !above().any(|one| one == layer)))
                {
                    return Ok(None);
                }
                found
            }
        };
        let Some(policy) = found else {
            return Err(self.unknown(word, policies));
        };
        self.may_leave_out(policy)?;
        Ok(Some(policy))
    }

    fn unknown(&self, word: &str, policies: &[Located]) -> Problem {
        let problem = Problem::error(
            Code::UnknownPolicy,
            format!("no layer here has a policy `{}`", quote(word)),
        );
        let ids = || {
            let forbids = policies
                .iter()
                .map(|located| &located.policy)
                .filter(|policy| policy.verdict != Verdict::Permit);
            forbids.map(|policy| policy.id.as_str())
        };
        let bare = |id: &'_ str| id.split_once(':').map_or(0, |(layer, _)| layer.len() + 1);
        let below = ids().find(|id| id.get(bare(id)..) == Some(word));
        let help = match below {
            Some(id) => Some(format!("write `{id}`: it belongs to a layer below")),
            None if word.contains(':') => suggest(word, ids()),
            None => suggest(word, ids().filter_map(|id| id.get(bare(id)..))),
        };
        match help {
            Some(help) => problem.help(help),
            None => problem,
        }
    }

    /// Whether this layer may leave out that policy at all.
    fn may_leave_out(&self, policy: &Policy) -> Result<(), Problem> {
        let (layer, id) = policy.id.split_once(':').unwrap_or(("", &policy.id));
        if policy.verdict == Verdict::Permit {
            return Err(Problem::error(
                Code::NotExempt,
                format!("`{id}` permits: an exception leaves out what forbids or asks"),
            ));
        }
        let of_guard = !policy.requires.is_empty()
            && policy.requires.iter().all(|label| label == GUARD)
            && !policy.actions.contains(Action::Read);
        if of_guard {
            return Err(Problem::error(
                Code::NotExempt,
                format!("`{id}` protects the bridge itself: it has no exceptions"),
            )
            .help("a person makes that change, outside the agent"));
        }
        let texts = [Action::Prompt, Action::Result];
        let only_texts = Action::ALL
            .into_iter()
            .all(|action| texts.contains(&action) || !policy.actions.contains(action));
        if only_texts {
            return Err(Problem::error(
                Code::NotExempt,
                format!(
                    "`{id}` is about prompts and results: what is taken out of them has no exceptions"
                ),
            ));
        }
        let own = self.file.layer;
        let above =
            layer != own.prefix() && layer != Layer::Workspace.prefix() && own == Layer::User;
        if above && !policy.waivable {
            return Err(Problem::error(
                Code::Loosens,
                format!("the layer above does not let `{id}` be waived"),
            )
            .help(format!(
                "its owner makes the exception, or adds `@waivable(\"user\")` in {}:{}",
                policy.file, policy.line
            )));
        }
        Ok(())
    }

    /// A warning where the scope and the policy have nothing to do with each other.
    fn without_effect(&self, name: &Spanned<String>, policy: &Policy) -> Option<Problem> {
        let subject = self.subject.and_then(|subject| {
            let kind = match subject {
                "paths" => ResourceType::Path,
                "commands" => ResourceType::Command,
                _ => ResourceType::Url,
            };
            (!policy.resources.contains(kind)).then(|| format!("`{subject}`"))
        });
        let actions = &self.exception.scope.actions;
        let action = !actions.is_empty()
            && !actions
                .iter()
                .any(|action| policy.actions.contains(*action));
        let why = subject.or_else(|| action.then(|| "those actions".to_owned()))?;
        let text = format!("`{}` never judges {why}", quote(name.get_ref()));
        Some(Problem::warning(Code::NoEffect, text).at(&self.file, name.span()))
    }

    fn look_at_expiry(&self, now: Timestamp) -> Option<Problem> {
        let at = Timestamp::from_second(self.exception.expires).ok()?;
        let day = at.strftime("%Y-%m-%d %H:%M UTC");
        let left = at.duration_since(now);
        let (text, help) = if left <= SignedDuration::ZERO {
            (format!("this exception expired at {day}"), "take it out")
        } else if left <= SOON {
            (
                format!("this exception expires at {day}"),
                "prolong it, or mend what it is for",
            )
        } else if left > LONG {
            (
                "this exception lasts for more than a year".to_owned(),
                "what lasts is better said by the policy itself",
            )
        } else {
            return None;
        };
        let problem = Problem::warning(Code::Expiry, text).help(help);
        Some(problem.at(&self.file, self.expires.clone()))
    }
}

#[cfg(test)]
mod tests;
