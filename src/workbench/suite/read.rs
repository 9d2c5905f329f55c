//! From TOML to tests: each key with its place, so that a typo in a test is shown where it stands.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use toml::Spanned;

use super::{Around, EventParser, Expected, Given, Names, Subject, Test};
use crate::engine::bundle::Handling;
use crate::engine::containment::PathPattern;
use crate::engine::decision::{Effect, Obligation};
use crate::engine::entity::Entity;
use crate::engine::request::{Agent, ToolFacts};
use crate::gate::event::{Body, Capabilities, Event, EventName, Reach, Served, ToolCall};
use crate::policy::diagnostic::{alternatives, quote, suggest};
use crate::policy::settings::redaction::example::{expand, marked};
use crate::policy::settings::table::{Entry, Reader, Table, key};
use crate::policy::settings::upstreams::servers::{ACCESS, MODES, TRUST};
use crate::policy::settings::upstreams::services::TIERS;
use crate::policy::settings::{self, Key, Merge};
use crate::policy::{Code, Problem, SourceFile};
use crate::workbench::props::{Prop, What};

const fn each(name: &'static str) -> Key {
    key(name, Merge::PerFile)
}

/// The keys of a file of tests.
pub const FILE: &[Key] = &[each("format"), each("defaults"), each("test")];

/// The keys of `[defaults]`, which are for every test of the file.
pub const DEFAULTS: &[Key] = &[
    each("cwd"),
    each("depth"),
    each("entities"),
    each("entity"),
    each("files"),
    each("host"),
    each("interactive"),
    each("labels"),
    each("session"),
];

/// The keys of `[[test]]`.
pub const KEYS: &[Key] = &[
    each("name"),
    // What happens: one of these.
    each("command"),
    each("error"),
    each("event"),
    each("prompt"),
    each("read"),
    each("request"),
    each("result"),
    each("served"),
    each("tool"),
    each("url"),
    each("write"),
    // What belongs to some of those.
    each("args"),
    each("on"),
    each("recoverable"),
    // In which circumstances.
    each("cwd"),
    each("depth"),
    each("entity"),
    each("files"),
    each("host"),
    each("interactive"),
    each("session"),
    // What has to come out.
    each("decision"),
    each("error_class"),
    each("handling"),
    each("obligations"),
    each("only"),
    each("policies"),
    each("rules"),
    each("text"),
    each("would_decide"),
];

/// The keys of an entry of `files` that is no text.
pub const PROP: &[Key] = &[each("path"), each("text"), each("link"), each("hard_link")];

/// The keys of `served`.
pub const SERVED: &[Key] = &[
    each("server"),
    each("tool"),
    each("tier"),
    each("mode"),
    each("trust"),
    each("access"),
    each("description"),
];

/// What the pin says of how a server describes a tool.
pub const DESCRIPTIONS: [(&str, &str); 3] = [
    ("accepted", "accepted"),
    ("new", "new"),
    ("changed", "changed"),
];

/// The keys of an entry of `entities` that is no text.
pub const ENTITY: &[Key] = &[each("name"), each("phi")];

/// What happens in a test.
const FORMS: [&str; 11] = [
    "command", "read", "write", "url", "tool", "prompt", "result", "error", "event", "request",
    "served",
];

const EFFECTS: [(&str, Effect); 3] = [
    ("allow", Effect::Allow),
    ("ask", Effect::Ask),
    ("deny", Effect::Deny),
];

const HANDLINGS: [(&str, Handling); 3] = [
    ("retry", Handling::Retry),
    ("skip", Handling::Skip),
    ("abort", Handling::Abort),
];

const INTERACTIVE: [(&str, &str); 3] = [("yes", "yes"), ("no", "no"), ("unknown", "unknown")];

/// No chain of agents is followed further.
const DEPTH_MAX: u32 = 64;

/// What every test of a file has, unless it says otherwise.
#[derive(Clone, Default)]
struct Defaults {
    around: Around,
    host: Option<Spanned<String>>,
    interactive: Option<&'static str>,
    session: Option<String>,
}

/// Reads the tests of a file.
pub(super) fn file(
    file: &Arc<SourceFile>,
    parse: &EventParser<'_>,
    tests: &mut Vec<Test>,
    problems: &mut Vec<Problem>,
) {
    let mut reader = Reader {
        file,
        base: true,
        thorough: true,
        problems,
    };
    settings::read(file, &mut reader, |root, reader| {
        root.check(FILE, reader);
        let defaults = match root.table("defaults", reader) {
            Some(table) => self::defaults(table, reader),
            None => Defaults::default(),
        };
        let tables = root.tables("test", reader);
        if tables.is_empty() && !root.has("test") {
            let problem = Problem::error(Code::MissingKey, "the file holds no test")
                .help("write `[[test]]`, with a `name`, what happens, and a `decision`");
            let start = root.span().start;
            reader.push(start..start, problem);
        }
        let mut names = BTreeSet::new();
        for table in tables {
            let Some(test) = test(table, &defaults, parse, reader) else {
                continue;
            };
            if !names.insert(test.name.clone()) {
                let text = format!("there is another test `{}`", quote(&test.name));
                reader.push(test.span.clone(), Problem::error(Code::DuplicateId, text));
            }
            tests.push(test);
        }
    });
}

fn defaults(table: Table<'_>, reader: &mut Reader<'_>) -> Defaults {
    table.check(DEFAULTS, reader);
    let mut defaults = Defaults::default();
    circumstances(table, &mut defaults, reader);
    let labels = labels(table, reader);
    let entities = entities(table, reader);
    defaults.around.given = Arc::new(Given { labels, entities });
    defaults
}

/// Further paths of labels.
fn labels(table: Table<'_>, reader: &mut Reader<'_>) -> Vec<(String, Vec<PathPattern>)> {
    let Some(labels) = table.table("labels", reader) else {
        return Vec::new();
    };
    let mut all = Vec::new();
    for (name, _) in labels.keys() {
        let texts = labels.texts(name, reader);
        let paths = settings::containment::paths(texts, reader);
        all.push((name.to_owned(), paths));
    }
    all
}

/// Further entities.
fn entities(table: Table<'_>, reader: &mut Reader<'_>) -> Vec<Entity> {
    let mut all = Vec::new();
    for (_, entry) in table.entries("entities", reader) {
        let (name, phi) = match entry {
            Entry::Text(name) => (name.to_owned(), true),
            Entry::Table(table) => {
                table.check(ENTITY, reader);
                let phi = !table.has("phi") || table.flag("phi", reader);
                let Some(name) = table.required_text("name", reader) else {
                    continue;
                };
                (name.into_inner(), phi)
            }
        };
        all.push(Entity {
            name,
            phi,
            ..Entity::default()
        });
    }
    all
}

/// Reads in which circumstances something happens, over what is the case anyway.
fn circumstances(table: Table<'_>, all: &mut Defaults, reader: &mut Reader<'_>) {
    for (span, entry) in table.entries("files", reader) {
        if let Some(prop) = prop(span.clone(), entry, reader) {
            all.around.props.push(prop);
            all.around.props_at.push(span);
        }
    }
    if let Some(cwd) = table.text("cwd", reader) {
        all.around.cwd = Some(cwd.into_inner());
    }
    if let Some(depth) = table.number("depth", 0..=DEPTH_MAX, reader) {
        all.around.depth = depth.into_inner();
    }
    all.around.entity = table
        .text("entity", reader)
        .or_else(|| all.around.entity.take());
    all.host = table.text("host", reader).or_else(|| all.host.take());
    if let Some(interactive) = table.choice("interactive", &INTERACTIVE, reader) {
        all.interactive = Some(interactive.into_inner());
    }
    if let Some(session) = table.text("session", reader) {
        all.session = Some(session.into_inner());
    }
}

fn prop(span: Range<usize>, entry: Entry<'_>, reader: &mut Reader<'_>) -> Option<Prop> {
    let (path, what) = match entry {
        Entry::Text(path) => (path.to_owned(), What::File(String::new())),
        Entry::Table(table) => {
            table.check(PROP, reader);
            let path = table.required_text("path", reader);
            let text = table.text("text", reader);
            let link = table.text("link", reader);
            let hard = table.text("hard_link", reader);
            let what = match (text, link, hard) {
                (text, None, None) => {
                    What::File(text.map(|text| expand(text.get_ref())).unwrap_or_default())
                }
                (None, Some(link), None) => What::Link(link.into_inner()),
                (None, None, Some(other)) => What::HardLink(other.into_inner()),
                _ => {
                    let text = "a file has a `text`, or is a `link` or a `hard_link`";
                    reader.push(span, Problem::error(Code::BadValue, text));
                    return None;
                }
            };
            (path?.into_inner(), what)
        }
    };
    Some(match (path.strip_suffix('/'), what) {
        (Some(folder), What::File(text)) if text.is_empty() => Prop {
            path: folder.to_owned(),
            what: What::Folder,
        },
        (_, what) => Prop { path, what },
    })
}

fn test(
    table: Table<'_>,
    defaults: &Defaults,
    parse: &EventParser<'_>,
    reader: &mut Reader<'_>,
) -> Option<Test> {
    table.check(KEYS, reader);
    let name = table.required_text("name", reader);
    let mut all = defaults.clone();
    circumstances(table, &mut all, reader);
    let expected = expected(table, reader);
    let happens = happens(table, reader);
    let (name, expected, happens) = (name?, expected?, happens?);
    suits(table, &happens, reader);
    let tried = match happens.form {
        "request" => request(table, &happens, reader),
        "served" => served(table, &happens, &all, reader),
        _ => event(table, &happens, &all, parse, reader),
    };
    Some(Test {
        tried: tried?,
        span: name.span(),
        happens: table.span_of(happens.form),
        name: name.into_inner(),
        file: Arc::clone(reader.file),
        places: matches!(happens.form, "read" | "write"),
        secrets: happens.secrets,
        around: all.around,
        expected,
    })
}

fn request(table: Table<'_>, happens: &Happens, reader: &mut Reader<'_>) -> Option<Subject> {
    match super::request::of(&happens.json) {
        Ok(request) => Some(Subject::Request(Box::new(request))),
        Err((text, help)) => {
            let problem = Problem::error(Code::BadValue, text).help(help);
            reader.push(table.span_of(happens.form), problem);
            None
        }
    }
}

/// A call of a tool that this program serves, as its door makes an event of it.
fn served(
    table: Table<'_>,
    happens: &Happens,
    all: &Defaults,
    reader: &mut Reader<'_>,
) -> Option<Subject> {
    let said = table.table("served", reader)?;
    said.check(SERVED, reader);
    let server = said.required_text("server", reader);
    let name = said.required_text("tool", reader);
    let mut fact = |key, words: &[(&'static str, &'static str)]| {
        let chosen = said.choice(key, words, reader);
        chosen.map_or_else(String::new, |word| word.into_inner().to_owned())
    };
    let tool = ToolFacts {
        known: true,
        tier: fact("tier", &TIERS),
        mode: fact("mode", &MODES),
        trust: fact("trust", &TRUST),
        access: fact("access", &ACCESS),
        description: fact("description", &DESCRIPTIONS),
        server: server?.into_inner(),
        name: name?.into_inner(),
        ..ToolFacts::default()
    };
    let host = Capabilities {
        interactive: all.interactive.unwrap_or("no"),
        replaces_results: true,
        replaces_prompts: false,
    };
    Some(Subject::Event(Box::new(Event {
        name: happens.event,
        dialect: "mcp",
        call: None,
        agent: Agent {
            host: "mcp".to_owned(),
            session: all.session.clone().unwrap_or_else(|| "scene".to_owned()),
            ..Agent::default()
        },
        agent_id: None,
        cwd: None,
        host,
        body: Body::Call(ToolCall {
            name: tool.name.clone(),
            args: happens.json.clone(),
        }),
        served: Some(Served {
            provider: tool.server.clone(),
            reach: Reach::Nothing,
            tool,
            ..Served::default()
        }),
    })))
}

fn event(
    table: Table<'_>,
    happens: &Happens,
    all: &Defaults,
    parse: &EventParser<'_>,
    reader: &mut Reader<'_>,
) -> Option<Subject> {
    let host = all.host.as_ref().map(|host| host.get_ref().as_str());
    let mut event = match parse(host, happens.event, &happens.json) {
        Ok(event) => event,
        Err(text) => {
            let span = table.span_of(happens.form);
            reader.push(span, Problem::error(Code::BadValue, text));
            return None;
        }
    };
    if let Some(interactive) = all.interactive {
        event.host.interactive = interactive;
    }
    if let Some(session) = &all.session {
        event.agent.session.clone_from(session);
    }
    Some(Subject::Event(Box::new(event)))
}

/// What happens, in the JSON that hosts write.
struct Happens {
    form: &'static str,
    event: EventName,
    json: Value,
    secrets: Vec<String>,
}

fn happens(table: Table<'_>, reader: &mut Reader<'_>) -> Option<Happens> {
    // With `result`, `tool` says whose result it is.
    let is_form = |form: &&str| table.has(form) && !(*form == "tool" && table.has("result"));
    let forms: Vec<&str> = FORMS.into_iter().filter(is_form).collect();
    let form = match forms.as_slice() {
        [form] => *form,
        [] => {
            let problem = Problem::error(Code::MissingKey, "the test does not say what happens")
                .help(format!("write one of {}", alternatives(FORMS)));
            reader.push(table.span(), problem);
            return None;
        }
        [first, second, ..] => {
            let text = format!("a test is about one thing, and this one has `{first}` already");
            reader.push(table.span_of(second), Problem::error(Code::BadValue, text));
            return None;
        }
    };
    let form = FORMS.into_iter().find(|known| *known == form)?;
    let call = |tool: &str, args: Value| json!({"toolName": tool, "toolArgs": args});
    let mut secrets = Vec::new();
    let (event, json) = match form {
        "event" => {
            let json = table.object("event", expand, reader)?.into_inner();
            (event_name(table, &json, reader)?, json)
        }
        "request" => {
            let json = table.object("request", str::to_owned, reader)?.into_inner();
            (EventName::PreToolUse, json)
        }
        "served" => (EventName::PreToolUse, args(table, reader)?),
        "tool" => {
            let tool = table.required_text("tool", reader)?;
            (
                EventName::PreToolUse,
                call(tool.get_ref(), args(table, reader)?),
            )
        }
        _ => {
            let written = table.text(form, reader)?.into_inner();
            let mut text = || {
                let (text, spans) = marked(&written);
                let parts = spans.into_iter().filter_map(|span| text.get(span));
                secrets.extend(parts.map(str::to_owned));
                text.clone()
            };
            match form {
                "command" => (
                    EventName::PreToolUse,
                    call("bash", json!({"command": written})),
                ),
                "read" => (
                    EventName::PreToolUse,
                    call("view", json!({"path": written})),
                ),
                "write" => {
                    let args = json!({"path": written, "file_text": ""});
                    (EventName::PreToolUse, call("create", args))
                }
                "url" => (
                    EventName::PreToolUse,
                    call("web_fetch", json!({"url": written})),
                ),
                "prompt" => (EventName::UserPromptSubmitted, json!({"prompt": text()})),
                "error" => {
                    let recoverable = table.flag("recoverable", reader);
                    let error = json!({"message": expand(&written), "recoverable": recoverable});
                    (EventName::ErrorOccurred, json!({"error": error}))
                }
                _ => {
                    let tool = table.text("tool", reader).map(Spanned::into_inner);
                    let tool = tool.as_deref().unwrap_or("bash");
                    let mut json = call(tool, args(table, reader)?);
                    if let Some(fields) = json.as_object_mut() {
                        fields.insert("toolResult".to_owned(), Value::String(text()));
                    }
                    (EventName::PostToolUse, json)
                }
            }
        }
    };
    Some(Happens {
        form,
        event,
        json,
        secrets,
    })
}

/// The arguments of a tool; none of them without the key.
fn args(table: Table<'_>, reader: &mut Reader<'_>) -> Option<Value> {
    if !table.has("args") {
        return Some(Value::Object(Map::new()));
    }
    Some(table.object("args", expand, reader)?.into_inner())
}

/// Which event it is: as `on` says, else as the event says of itself, else a tool's call.
fn event_name(table: Table<'_>, json: &Value, reader: &mut Reader<'_>) -> Option<EventName> {
    let (span, said) = match table.text("on", reader) {
        Some(on) => (on.span(), on.into_inner()),
        None => {
            let said = ["hook_event_name", "hookEventName", "hookName"]
                .into_iter()
                .find_map(|key| json.get(key)?.as_str());
            (
                table.span_of("event"),
                said.unwrap_or("pre-tool-use").to_owned(),
            )
        }
    };
    let name = EventName::parse(&said);
    if name.is_none() {
        let known = EventName::ALL.map(EventName::kebab);
        let problem = Problem::error(
            Code::BadValue,
            format!("`{}` is no event of a host", quote(&said)),
        )
        .help(suggest(&said, known).unwrap_or_else(|| format!("it is {}", alternatives(known))));
        reader.push(span, problem);
    }
    name
}

/// Notes keys that mean nothing beside what happens.
fn suits(table: Table<'_>, happens: &Happens, reader: &mut Reader<'_>) {
    let text = matches!(
        happens.event,
        EventName::PostToolUse
            | EventName::PostToolUseFailure
            | EventName::UserPromptSubmitted
            | EventName::UserPromptTransformed
    );
    let error = happens.event == EventName::ErrorOccurred;
    for (name, suits, beside) in [
        (
            "args",
            ["tool", "result", "served"].contains(&happens.form),
            "`tool`, `result` or `served`",
        ),
        ("on", happens.form == "event", "`event`"),
        ("recoverable", happens.form == "error", "`error`"),
        ("text", text, "`result` or `prompt`"),
        ("error_class", error, "`error`"),
        ("handling", error, "`error`"),
    ] {
        if table.has(name) && !suits {
            let text = format!("`{name}` belongs to {beside}");
            reader.push(table.span_of(name), Problem::error(Code::BadValue, text));
        }
    }
    let circumstances = DEFAULTS.iter().filter(|key| table.has(key.name));
    for key in circumstances.filter(|_| happens.form == "request") {
        let text = format!("`{}` belongs to an event", key.name);
        let problem = Problem::error(Code::BadValue, text)
            .help("the facts of a request stand in its `principal`, `resource` and `context`");
        reader.push(table.span_of(key.name), problem);
    }
}

fn expected(table: Table<'_>, reader: &mut Reader<'_>) -> Option<Expected> {
    if !table.has("decision") {
        table.missing("decision", reader);
    }
    let decision = table.choice("decision", &EFFECTS, reader);
    let obligations = names(table, "obligations", reader);
    for name in obligations.iter().flat_map(|names| &names.all) {
        if Obligation::from_name(name.get_ref()).is_none() {
            let known = Obligation::ALL.map(Obligation::name);
            let text = format!("`{}` is no obligation", quote(name.get_ref()));
            let problem =
                Problem::error(Code::BadValue, text).help(format!("it is {}", alternatives(known)));
            reader.push(name.span(), problem);
        }
    }
    let expected = Expected {
        would_decide: table.choice("would_decide", &EFFECTS, reader),
        policies: names(table, "policies", reader),
        obligations,
        rules: names(table, "rules", reader),
        only: table.flag("only", reader),
        text: table.text("text", reader),
        error_class: table.text("error_class", reader),
        handling: table.choice("handling", &HANDLINGS, reader),
        decision: decision?,
    };
    let lists = [&expected.policies, &expected.obligations, &expected.rules];
    if expected.only && lists.iter().all(|list| list.is_none()) {
        let problem = Problem::error(Code::BadValue, "`only` has nothing to be about")
            .help("it says that there are no others than in `policies`, `obligations` or `rules`");
        reader.push(table.span_of("only"), problem);
    }
    Some(expected)
}

fn names(table: Table<'_>, name: &str, reader: &mut Reader<'_>) -> Option<Names> {
    table.has(name).then(|| Names {
        span: table.span_of(name),
        all: table.texts(name, reader),
    })
}

impl Subject {
    /// The text that it brings.
    pub(super) fn text(&self) -> Option<&str> {
        let Self::Event(event) = self else {
            return None;
        };
        match &event.body {
            Body::Result { text, .. } | Body::Prompt { text } => Some(text),
            _ => None,
        }
    }
}
