//! `policy show`: what is in force here, from which layer, in words.

use std::io::{self, Write};
#[cfg(unix)]
use std::path::Path;
use std::path::PathBuf;

use anstyle::{AnsiColor, Style};
use serde_json::{Value, json};

use super::show_problems;
use crate::cli::config::{self, Row};
use crate::cli::place::Place;
use crate::cli::{Format, Outcome};
use crate::engine::action::Action;
use crate::engine::bundle::{Bundle, Mode, Policy, Verdict};
use crate::exit::Exit;
use crate::policy::layer;
use crate::policy::source::{Source, digest};
use crate::policy::{self, Locations};
use crate::workbench::show::{Overview, policies_named, sentence, written};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A directory of policies [default: the ones that are in force here]
    dir: Option<PathBuf>,
    /// One policy in full, by its id
    #[arg(long, value_name = "ID")]
    policy: Option<String>,
    /// How to show it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    #[command(flatten)]
    place: Place,
}

/// The version of the JSON form.
const JSON_VERSION: u32 = 1;

/// How long a line may be, in characters.
const WIDTH: usize = 100;

const HEAD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();

/// What is in force here.
struct Here {
    bundle: Bundle,
    sources: Vec<Source>,
    settings: Vec<Row>,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let cwd = std::env::current_dir().ok();
    let read = match &args.dir {
        Some(dir) => {
            let only = Locations::only(dir);
            layer::read(&only).and_then(|sources| Ok((policy::load(&only)?, sources)))
        }
        None => layer::read(&args.place.locations(cwd.as_deref()))
            .and_then(|sources| Ok((args.place.policies(cwd.as_deref())?, sources))),
    };
    let (bundle, sources) = match read {
        Ok(read) => read,
        Err(problems) => {
            show_problems(&problems, out)?;
            return Ok(Exit::PolicyInvalid);
        }
    };
    if bundle.digest != digest(&sources) {
        return Err("the policies changed in the meantime: try again".into());
    }
    let here = Here {
        settings: config::rows(&args.place, &bundle, cwd.as_deref())?,
        bundle,
        sources,
    };
    if let Some(id) = &args.policy {
        return one(&here, id, args.format, out);
    }
    match args.format {
        Format::Text => here.text(out)?,
        Format::Json => writeln!(out, "{:#}", here.json())?,
    }
    Ok(Exit::Ok)
}

/// One policy in full, or each of that id.
fn one(here: &Here, id: &str, format: Format, out: &mut dyn Write) -> Outcome {
    let found: Vec<&Policy> = policies_named(&here.bundle, id).collect();
    if found.is_empty() {
        return Err(format!(
            "there is no policy `{id}` here: `copilot-bridge policy show` names them all"
        )
        .into());
    }
    if format == Format::Json {
        let all: Vec<Value> = found
            .iter()
            .map(|policy| {
                let mut value = policy_json(policy);
                if let Some(fields) = value.as_object_mut() {
                    fields.insert("text".to_owned(), json!(written(policy, &here.sources)));
                }
                value
            })
            .collect();
        writeln!(
            out,
            "{:#}",
            json!({ "version": JSON_VERSION, "policies": all })
        )?;
        return Ok(Exit::Ok);
    }
    for (index, policy) in found.into_iter().enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        let (word, style) = verdict(policy.verdict);
        writeln!(
            out,
            "{HEAD}{}{HEAD:#}  {style}{word}{style:#}  {}",
            policy.id,
            sentence(policy)
        )?;
        writeln!(out, "{DIM}{}:{}{DIM:#}", policy.file, policy.line)?;
        for remark in remarks(policy) {
            writeln!(out, "{remark}")?;
        }
        if let Some(text) = written(policy, &here.sources) {
            // A file may not speak to the terminal.
            let control = |c: char| c.is_control() && !['\n', '\t'].contains(&c);
            writeln!(out, "\n{}", text.replace(control, "\u{fffd}"))?;
        }
    }
    Ok(Exit::Ok)
}

impl Here {
    fn text(&self, out: &mut dyn Write) -> io::Result<()> {
        let overview = Overview::of(&self.bundle, &self.sources);
        writeln!(out, "{HEAD}Layers{HEAD:#}")?;
        for (index, layer) in overview.layers.iter().enumerate() {
            let role = if index == 0 { "base" } else { "adds" };
            let owner = owner(&layer.dir)
                .map(|owner| format!(", {owner}"))
                .unwrap_or_default();
            writeln!(out, "  {role}  {:<10} {}", layer.name, layer.dir)?;
            let digest: String = layer.digest.chars().take(12).collect();
            writeln!(
                out,
                "        {DIM}{}, {}{owner}, digest {digest}{DIM:#}",
                count(layer.policies, "policy", "policies"),
                count(layer.files, "file", "files")
            )?;
            if index > 0 {
                for line in wrapped(&self.added(layer.name), WIDTH - 8) {
                    writeln!(out, "        {line}")?;
                }
            }
        }
        if overview.layers.len() > 1 {
            writeln!(out, "  {DIM}a layer that adds may only tighten{DIM:#}")?;
        }
        writeln!(
            out,
            "  {DIM}all of it: digest {}{DIM:#}",
            self.bundle.digest
        )?;
        self.settings(out)?;
        self.policies(&overview, out)?;
        lists(&overview, out)
    }

    /// What a layer below the base adds.
    fn added(&self, layer: &str) -> String {
        let ids = self.bundle.policies.iter().filter_map(|policy| {
            let (of, bare) = policy.id.split_once(':')?;
            (of == layer).then_some(bare)
        });
        let origins = self.bundle.settings.origins.iter();
        let settings = origins
            .filter(|(_, of)| *of == layer)
            .map(|(key, _)| key.as_str());
        let added: Vec<&str> = ids.chain(settings).collect();
        format!(
            "adds {}",
            if added.is_empty() {
                "nothing".to_owned()
            } else {
                added.join(", ")
            }
        )
    }

    fn settings(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "\n{HEAD}Settings{HEAD:#}")?;
        if self.bundle.settings.mode == Mode::Monitor {
            let style = AnsiColor::Yellow.on_default().bold();
            writeln!(
                out,
                "  {style}monitor: judgements are recorded and do not bind, but for faults and the guard{style:#}"
            )?;
        }
        // These two stand above.
        let above = ["policies", "policy_digest"];
        let rows = self
            .settings
            .iter()
            .filter(|(key, ..)| !above.contains(key));
        for (key, value, origin) in rows {
            let value = match value {
                Value::String(text) if text.is_empty() => "—".to_owned(),
                Value::String(text) => text.clone(),
                Value::Array(entries) => {
                    let words: Vec<&str> = entries.iter().filter_map(Value::as_str).collect();
                    if words.is_empty() {
                        "—".to_owned()
                    } else {
                        words.join(" ")
                    }
                }
                Value::Object(fields) if fields.is_empty() => "—".to_owned(),
                other => other.to_string(),
            };
            let origin = format!("({})", origin.replace(' ', "\u{a0}"));
            let dim = |line: &str| {
                let line = line.replace(&origin, &format!("{DIM}{origin}{DIM:#}"));
                line.replace('\u{a0}', " ")
            };
            let mut key = *key;
            for line in wrapped(&format!("{value} {origin}"), WIDTH - 27) {
                writeln!(out, "  {key:<24} {}", dim(&line))?;
                key = "";
            }
        }
        Ok(())
    }

    fn policies(&self, overview: &Overview, out: &mut dyn Write) -> io::Result<()> {
        let base = self
            .sources
            .first()
            .map_or("", |source| source.layer.prefix());
        let id = |policy: &Policy| {
            let bare = policy
                .id
                .strip_prefix(base)
                .and_then(|rest| rest.strip_prefix(':'));
            bare.unwrap_or(&policy.id).to_owned()
        };
        let longest = self
            .bundle
            .policies
            .iter()
            .map(|policy| id(policy).len())
            .max();
        let column = longest.unwrap_or_default().clamp(8, 32);
        for group in &overview.groups {
            writeln!(out, "\n{HEAD}{}{HEAD:#}", group.about)?;
            for policy in group
                .policies
                .iter()
                .filter_map(|index| self.bundle.policies.get(*index))
            {
                let (word, style) = verdict(policy.verdict);
                let place = format!("({}:{})", short(&policy.file), policy.line);
                let mut words = sentence(policy);
                for remark in remarks(policy) {
                    words.push_str(&format!("; {remark}"));
                }
                let mut lines =
                    wrapped(&format!("{words} {place}"), WIDTH - column - 10).into_iter();
                let first = lines.next().unwrap_or_default();
                let dim = |line: String| match line.strip_suffix(&place) {
                    Some(before) => format!("{before}{DIM}{place}{DIM:#}"),
                    None => line,
                };
                writeln!(
                    out,
                    "  {style}{word:<5}{style:#}  {:<column$} {}",
                    id(policy),
                    dim(first)
                )?;
                for line in lines {
                    writeln!(out, "         {:<column$} {}", "", dim(line))?;
                }
            }
        }
        Ok(())
    }

    fn json(&self) -> Value {
        let overview = Overview::of(&self.bundle, &self.sources);
        let layers: Vec<Value> = overview
            .layers
            .iter()
            .map(|layer| {
                json!({
                    "layer": layer.name, "dir": layer.dir, "owner": owner(&layer.dir),
                    "files": layer.files, "policies": layer.policies, "digest": layer.digest,
                })
            })
            .collect();
        let settings: serde_json::Map<String, Value> = self
            .settings
            .iter()
            .map(|(key, value, origin)| {
                (
                    (*key).to_owned(),
                    json!({ "value": value, "origin": origin }),
                )
            })
            .collect();
        let count = |list: &[(String, usize)]| -> Value {
            list.iter()
                .cloned()
                .map(|(name, count)| (name, json!(count)))
                .collect::<serde_json::Map<_, _>>()
                .into()
        };
        let packs: Vec<Value> = overview
            .packs
            .iter()
            .map(|pack| json!({ "pack": pack.name, "obligation": pack.obligation, "on": pack.on, "rules": pack.rules }))
            .collect();
        json!({
            "version": JSON_VERSION,
            "digest": self.bundle.digest,
            "layers": layers,
            "settings": settings,
            "policies": self.bundle.policies.iter().map(policy_json).collect::<Vec<_>>(),
            "labels": { "paths": count(&overview.labels), "commands": count(&overview.commands) },
            "patterns": overview.patterns,
            "packs": packs,
            "entities": overview.entities,
        })
    }
}

/// Labels, patterns, packs and entities.
fn lists(overview: &Overview, out: &mut dyn Write) -> io::Result<()> {
    let counted = |list: &[(String, usize)]| {
        let words: Vec<String> = list
            .iter()
            .map(|(name, count)| format!("{name}\u{a0}{count}"))
            .collect();
        words.join(", ")
    };
    let none = |list: &[String]| {
        if list.is_empty() {
            "none".to_owned()
        } else {
            list.join(", ")
        }
    };
    for (head, text) in [
        (
            "Labels of paths, and how many patterns give them",
            counted(&overview.labels),
        ),
        (
            "Labels of commands, and how many entries give them",
            counted(&overview.commands),
        ),
        ("Patterns over arguments", none(&overview.patterns)),
        (
            "Entities whose data is kept apart",
            none(&overview.entities),
        ),
    ] {
        writeln!(out, "\n{HEAD}{head}{HEAD:#}")?;
        for line in wrapped(&text, WIDTH - 2) {
            writeln!(out, "  {}", line.replace('\u{a0}', " "))?;
        }
    }
    writeln!(out, "\n{HEAD}Redaction{HEAD:#}")?;
    for pack in &overview.packs {
        let state = if pack.on {
            format!("{} rules", pack.rules)
        } else {
            "off".to_owned()
        };
        writeln!(
            out,
            "  {:<12} {state:<10} {DIM}{}{DIM:#}",
            pack.name, pack.obligation
        )?;
    }
    Ok(())
}

fn policy_json(policy: &Policy) -> Value {
    let actions = Action::ALL
        .into_iter()
        .filter(|action| policy.actions.contains(*action));
    json!({
        "id": policy.id,
        "verdict": verdict(policy.verdict).0,
        "actions": actions.map(Action::name).collect::<Vec<_>>(),
        "reason": policy.reason,
        "help": policy.help,
        "severity": policy.severity,
        "monitor": policy.monitor,
        "waivable": policy.waivable,
        "obligations": policy.obligations.iter().map(|obligation| obligation.name()).collect::<Vec<_>>(),
        "file": policy.file,
        "line": policy.line,
    })
}

/// What else is to be said of a policy.
fn remarks(policy: &Policy) -> Vec<String> {
    let mut remarks = Vec::new();
    if policy.monitor {
        remarks.push("monitored: it is recorded, and decides nothing".to_owned());
    }
    if policy.waivable {
        remarks.push("layers below may make exceptions".to_owned());
    }
    if !policy.obligations.is_empty() {
        let names: Vec<&str> = policy
            .obligations
            .iter()
            .map(|obligation| obligation.name())
            .collect();
        remarks.push(names.join(", "));
    }
    remarks
}

const fn verdict(verdict: Verdict) -> (&'static str, Style) {
    match verdict {
        Verdict::Permit => ("allow", AnsiColor::Green.on_default()),
        Verdict::Ask => ("ask", AnsiColor::Yellow.on_default()),
        Verdict::Forbid => ("deny", AnsiColor::Red.on_default()),
    }
}

fn count(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// The name of a file without its folder.
fn short(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Who owns a directory, and its mode.
#[cfg(unix)]
fn owner(dir: &str) -> Option<String> {
    use std::os::unix::fs::MetadataExt;
    let meta = Path::new(dir).metadata().ok()?;
    let user = nix::unistd::User::from_uid(nix::unistd::Uid::from_raw(meta.uid()));
    let name = user
        .ok()
        .flatten()
        .map_or_else(|| meta.uid().to_string(), |user| user.name);
    Some(format!("owner {name}, mode {:o}", meta.mode() & 0o7777))
}

#[cfg(not(unix))]
fn owner(_: &str) -> Option<String> {
    None
}

/// The text in lines of at most so many characters.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let Some(line) = lines.last_mut() else { break };
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
            lines.push(word.to_owned());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}
