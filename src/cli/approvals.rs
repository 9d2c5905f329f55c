//! `approvals`: what policies ask, answered by a person at another terminal.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anstyle::Style;
use jiff::{SignedDuration, Span, SpanRelativeTo, Timestamp};
use serde_json::{Value, json};

use super::place::Place;
use super::{Format, Outcome, passphrase, policy};
use crate::approvals::desk::Desk;
use crate::approvals::question::{Asked, Id};
use crate::approvals::statement::{NOTE_LIMIT, Statement, Verdict};
use crate::audit::record::v1::{Entry, Kind};
use crate::audit::report::text::visible;
use crate::audit::writer::{Log, notice};
use crate::config::{self, AuditDirectory};
use crate::engine::approver::{Approver, Approvers, Unverified};
use crate::engine::bundle::Bundle;
use crate::engine::decision::Effect;
use crate::exit::Exit;
use crate::keys::SigningKey;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// List the calls that wait for an answer
    List(List),
    /// Show all that is known of a call that waits
    Show(Show),
    /// Let a call through, once
    Approve(Approve),
    /// Refuse a call, until the refusal expires
    Deny(Deny),
    /// Take away questions and answers: those that are too old, or those that are named
    Prune(Prune),
}

#[derive(Debug, clap::Args)]
struct List {
    /// How to show it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, clap::Args)]
struct Show {
    /// The question's name, as `approvals list` has it
    id: Id,
    /// How to show it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "What is signed is what is shown, and the call itself: another call, another session or \
    another folder finds no approval. `copilot-bridge key new FILE` makes a key; `approvers.toml` names it."
)]
struct Approve {
    /// The question's name, as `approvals list` has it
    id: Id,
    /// Your key; its passphrase is asked at the terminal
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// How long the approval waits for the call [default: as long as `approvers.toml` allows]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    expires: Option<SignedDuration>,
    /// What the record says about it
    #[arg(long, value_name = "TEXT", value_parser = note, default_value = "")]
    note: String,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, clap::Args)]
struct Deny {
    /// The question's name, as `approvals list` has it
    id: Id,
    /// Your key, so that the record knows who it was; its passphrase is asked at the terminal
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// How long the refusal holds [default: as long as `approvers.toml` allows]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    expires: Option<SignedDuration>,
    /// What the agent is told
    #[arg(long, value_name = "TEXT", value_parser = note, default_value = "")]
    note: String,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, clap::Args)]
struct Prune {
    /// Questions by name, with their answers; without any, those that are too old
    ids: Vec<Id>,
    #[command(flatten)]
    place: Place,
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    match &args.verb {
        Verb::List(list) => list.run(out),
        Verb::Show(show) => show.run(out),
        Verb::Approve(approve) => approve.run(out),
        Verb::Deny(deny) => deny.run(out),
        Verb::Prune(prune) => prune.run(out),
    }
}

impl List {
    fn run(&self, out: &mut dyn Write) -> Outcome {
        let desk = Desk::new(&self.place.state());
        let (waiting, broken) = desk.waiting()?;
        match self.format {
            Format::Json => {
                let all: Vec<Value> = waiting
                    .iter()
                    .map(|asked| Ok(as_json(asked, &desk.said(asked)?)))
                    .collect::<Result<_, crate::approvals::DeskError>>()?;
                writeln!(
                    out,
                    "{:#}",
                    json!({"v": 1, "questions": all, "unreadable": broken})
                )?;
            }
            Format::Text => {
                for asked in &waiting {
                    let shown = &asked.shown;
                    let first = shown
                        .requests
                        .first()
                        .map(String::as_str)
                        .unwrap_or_default();
                    let more = match shown.requests.len() {
                        0 | 1 => String::new(),
                        count => format!(" (+{})", count - 1),
                    };
                    let answers = match desk.said(asked)?.len() {
                        0 => String::new(),
                        1 => ", 1 answer".to_owned(),
                        count => format!(", {count} answers"),
                    };
                    writeln!(
                        out,
                        "{HEAD}{}{HEAD:#}  {} ago{answers}  {}{more}",
                        asked.id(),
                        age(asked.at),
                        visible(first)
                    )?;
                }
                if waiting.is_empty() {
                    writeln!(out, "nothing waits for an answer")?;
                }
                if broken > 0 {
                    writeln!(
                        out,
                        "{broken} files are no questions: `copilot-bridge approvals prune` takes them away"
                    )?;
                }
            }
        }
        Ok(Exit::Ok)
    }
}

impl Show {
    fn run(&self, out: &mut dyn Write) -> Outcome {
        let desk = Desk::new(&self.place.state());
        let asked = desk.find(&self.id)?;
        match self.format {
            Format::Json => writeln!(out, "{:#}", as_json(&asked, &desk.said(&asked)?))?,
            Format::Text => show(&asked, out)?,
        }
        Ok(Exit::Ok)
    }
}

impl Approve {
    fn run(&self, out: &mut dyn Write) -> Outcome {
        let Some(clerk) = Clerk::new(&self.place, &self.id, out)? else {
            return Ok(Exit::PolicyInvalid);
        };
        let approvers = clerk.approvers();
        if !approvers.is_configured() {
            return Err("the policies name nobody who may approve a call\n\
                help: `[[approver]]` in `approvers.toml` of the base layer names people and their keys"
                .into());
        }
        if let Some(denied) = clerk.denied()? {
            return Err(format!(
                "`{}` denied this call until {}\nhelp: `copilot-bridge approvals prune {}` takes question and answer away, and the call may be asked about again",
                visible(&denied.approver), denied.expires, self.id
            ).into());
        }
        let valid = clerk.valid(self.expires)?;
        show(&clerk.asked, out)?;
        writeln!(out)?;
        out.flush()?;
        let Some(file) = &self.key else {
            return clerk.unverified(valid, &self.note, out);
        };
        let key = open(file)?;
        let Some(approver) = clerk.person(&key) else {
            return Err(format!(
                "`{}` is no approver's key\nhelp: `approvers.toml` of the base layer names {} for it",
                file.display(),
                key.public()
            )
            .into());
        };
        let shown = &clerk.asked.shown;
        let policies = shown.reasons.iter().map(|why| why.policy.as_str());
        if !approver.may(policies, &shown.entity, &shown.session) {
            return Err(format!(
                "`{}` may not approve this, by `approvers.toml`",
                approver.name
            )
            .into());
        }
        let name = approver.name.clone();
        let said = Statement::new(Verdict::Approve, &clerk.asked, &name, valid, &self.note)?;
        let mut envelope = said.envelope();
        envelope.sign(&key);
        clerk.record(&said, Some(&key), true)?;
        clerk.desk.answer(&clerk.asked, &envelope)?;
        writeln!(
            out,
            "`{name}` approved `{}`: the call may happen once, until {}",
            self.id,
            said.expires.strftime("%Y-%m-%d %H:%M:%S UTC")
        )?;
        let said = clerk.desk.said(&clerk.asked)?;
        let names = said.iter().filter_map(Statement::unverified);
        let names: BTreeSet<String> = names.map(|one| one.approver).collect();
        let (people, answers) = (shown.people, names.len());
        if answers < usize::from(people) {
            writeln!(
                out,
                "it takes {people} people: {} more",
                usize::from(people) - answers
            )?;
        }
        Ok(Exit::Ok)
    }
}

impl Deny {
    fn run(&self, out: &mut dyn Write) -> Outcome {
        let Some(clerk) = Clerk::new(&self.place, &self.id, out)? else {
            return Ok(Exit::PolicyInvalid);
        };
        let valid = clerk.valid(self.expires)?;
        let key = self.key.as_deref().map(open).transpose()?;
        let person = key.as_ref().and_then(|key| clerk.person(key));
        let name = person.map_or_else(|| UNVERIFIED.to_owned(), |person| person.name.clone());
        let said = Statement::new(Verdict::Deny, &clerk.asked, &name, valid, &self.note)?;
        let mut envelope = said.envelope();
        if let Some(key) = &key {
            envelope.sign(key);
        }
        clerk.record(&said, key.as_ref(), true)?;
        clerk.desk.answer(&clerk.asked, &envelope)?;
        writeln!(
            out,
            "`{}` is denied until {}",
            self.id,
            said.expires.strftime("%Y-%m-%d %H:%M:%S UTC")
        )?;
        Ok(Exit::Ok)
    }
}

impl Prune {
    fn run(&self, out: &mut dyn Write) -> Outcome {
        let desk = Desk::new(&self.place.state());
        if self.ids.is_empty() {
            writeln!(out, "{} files were taken away", desk.prune()?)?;
            return Ok(Exit::Ok);
        }
        let mut exit = Exit::Ok;
        for id in &self.ids {
            if desk.forget(id)? {
                writeln!(out, "`{id}` was taken away")?;
            } else {
                writeln!(out, "no question `{id}` waits for an answer")?;
                exit = Exit::Failed;
            }
        }
        Ok(exit)
    }
}

/// Who the record names where no key did.
const UNVERIFIED: &str = "unverified";

/// One question, and what an answer to it needs.
struct Clerk<'a> {
    place: &'a Place,
    bundle: Bundle,
    desk: Desk,
    asked: Asked,
}

impl<'a> Clerk<'a> {
    /// Nothing if the policies cannot be used, which is shown.
    fn new(
        place: &'a Place,
        id: &Id,
        out: &mut dyn Write,
    ) -> Result<Option<Self>, Box<dyn std::error::Error>> {
        // Who may approve stands in the base layer: no workspace has a say.
        let bundle = match place.policies(None) {
            Ok(bundle) => bundle,
            Err(problems) => {
                policy::show_problems(&problems, out)?;
                return Ok(None);
            }
        };
        let desk = Desk::new(&place.state());
        let asked = desk.find(id)?;
        Ok(Some(Self {
            place,
            bundle,
            desk,
            asked,
        }))
    }

    const fn approvers(&self) -> &Approvers {
        &self.bundle.settings.approvers
    }

    fn person(&self, key: &SigningKey) -> Option<&Approver> {
        let line = key.public().to_string();
        self.approvers().all.iter().find(|one| one.key == line)
    }

    /// The denial that still holds.
    fn denied(&self) -> Result<Option<Statement>, Box<dyn std::error::Error>> {
        let said = self.desk.said(&self.asked)?;
        let mut said = said.iter().filter_map(Statement::unverified);
        Ok(said.find(|one| one.verdict == Verdict::Deny && one.expires > Timestamp::now()))
    }

    fn valid(&self, wanted: Option<SignedDuration>) -> Result<SignedDuration, String> {
        let minutes = self.approvers().minutes;
        let longest = SignedDuration::from_mins(i64::from(minutes));
        match wanted {
            Some(wanted) if wanted > longest => Err(format!(
                "`approvers.toml` lets no answer be valid for more than {minutes} minutes"
            )),
            wanted => Ok(wanted.unwrap_or(longest)),
        }
    }

    /// An approval without a key: whoever runs as this user can give one, the agent too.
    fn unverified(&self, valid: SignedDuration, note: &str, out: &mut dyn Write) -> Outcome {
        let accepted = self.approvers().unverified == Unverified::Accept;
        let said = Statement::new(Verdict::Approve, &self.asked, UNVERIFIED, valid, note)?;
        self.record(&said, None, accepted)?;
        if !accepted {
            writeln!(
                out,
                "not approved: no key signed it, and the policies refuse that; `--key FILE` names yours"
            )?;
            return Ok(Exit::Denied);
        }
        self.desk.answer(&self.asked, &said.envelope())?;
        writeln!(
            out,
            "approved `{}` without a key: the call may happen once, until {}",
            self.asked.id(),
            said.expires.strftime("%Y-%m-%d %H:%M:%S UTC")
        )?;
        Ok(Exit::Ok)
    }

    /// Writes into the record who said what, before it counts.
    fn record(
        &self,
        said: &Statement,
        key: Option<&SigningKey>,
        counts: bool,
    ) -> Result<(), Box<dyn std::error::Error>> {
        let verified = key.is_some_and(|key| self.person(key).is_some());
        let detail = json!({
            "id": said.id,
            "verdict": said.verdict,
            "counts": counts,
            "by": said.approver,
            "key": key.map(|key| key.public().id()),
            "verified": verified,
            "expires": said.expires.to_string(),
            "nonce": said.nonce,
            "call": said.call,
            "note": said.note,
        });
        let (event, decision) = match (said.verdict, counts) {
            (Verdict::Approve, true) => ("approval_given", Effect::Allow),
            (Verdict::Approve, false) => ("approval_not_given", Effect::Deny),
            (Verdict::Deny, _) => ("approval_denied", Effect::Deny),
        };
        let shown = &self.asked.shown;
        let entry = Entry {
            session: Some(&shown.session),
            cwd: Some(&shown.cwd),
            tool: Some(&shown.tool),
            policy_digest: Some(&self.bundle.digest),
            decision,
            would_decide: decision,
            ..notice(Kind::Approval, event, detail)
        };
        let variable = std::env::var(config::AUDIT_LOG_DIR).ok();
        let dir = match config::audit_directory(variable.as_deref(), None) {
            AuditDirectory::Honoured(dir) => Some(dir),
            AuditDirectory::Unset | AuditDirectory::Ignored(_) => None,
        };
        let log = Log::open(&self.place.state(), dir, self.bundle.settings.audit.clone())?;
        log.append(&entry, true)?;
        Ok(())
    }
}

/// A person's key, which has to be behind a passphrase: an agent that runs as the same user could use
/// any other.
fn open(file: &Path) -> Result<SigningKey, Box<dyn std::error::Error>> {
    let asked = Cell::new(false);
    let key = SigningKey::read(file, || {
        asked.set(true);
        passphrase::ask(&format!("`{}`", file.display()))
    })?;
    if !asked.get() {
        return Err(format!(
            "`{}` is not behind a passphrase: an agent could use it as well\nhelp: `copilot-bridge key new FILE` makes one that is",
            file.display()
        )
        .into());
    }
    Ok(key)
}

const HEAD: Style = Style::new().bold();

/// All that a person is shown: every part of it is signed. Nothing of it can move the cursor.
fn show(asked: &Asked, out: &mut dyn Write) -> io::Result<()> {
    let shown = &asked.shown;
    let mut head = |name: &str, value: &str| match value {
        "" => Ok(()),
        value => writeln!(out, "{HEAD}{name:<10}{HEAD:#} {}", visible(value)),
    };
    head("question", asked.id().as_str())?;
    head("asked", &format!("{} ago", age(asked.at)))?;
    head("session", &shown.session)?;
    head("folder", &shown.cwd)?;
    head("entity", &shown.entity)?;
    head("tool", &shown.tool)?;
    for request in &shown.requests {
        head("wants to", request)?;
    }
    for why in &shown.reasons {
        head("asked by", &format!("{}: {}", why.policy, why.text))?;
        head("advice", &why.help)?;
    }
    if shown.people > 1 || !shown.groups.is_empty() {
        let people = format!("{} of approvers.toml", shown.people);
        let groups = shown.groups.join(", ");
        let of = if groups.is_empty() {
            String::new()
        } else {
            format!(", of {groups}")
        };
        head("people", &format!("{people}{of}"))?;
    }
    head("policies", &shown.policy_digest)?;
    head("hash", &shown.args_hmac)?;
    writeln!(
        out,
        "{HEAD}arguments{HEAD:#}, without what the redaction rules find:"
    )?;
    arguments(&shown.arguments, out)
}

/// The arguments with their texts as lines, so that a person can read them.
fn arguments(json: &str, out: &mut dyn Write) -> io::Result<()> {
    let lines = |text: &str, out: &mut dyn Write| {
        text.split('\n')
            .try_for_each(|line| writeln!(out, "  | {}", visible(line)))
    };
    let Ok(Value::Object(fields)) = serde_json::from_str(json) else {
        return lines(json, out);
    };
    for (name, value) in &fields {
        match value {
            Value::String(text) if text.contains('\n') => {
                writeln!(out, "  {}:", visible(name))?;
                lines(text, out)?;
            }
            Value::String(text) => writeln!(out, "  {}: {}", visible(name), visible(text))?,
            other => writeln!(out, "  {}: {}", visible(name), visible(&other.to_string()))?,
        }
    }
    Ok(())
}

fn as_json(asked: &Asked, said: &[crate::keys::envelope::Envelope]) -> Value {
    let answers: Vec<Value> = said
        .iter()
        .filter_map(Statement::unverified)
        .map(|one| json!({"verdict": one.verdict, "by": one.approver, "expires": one.expires}))
        .collect();
    json!({
        "id": asked.id(),
        "at": asked.at,
        "call": asked.call,
        "shown": asked.shown,
        "answers": answers,
    })
}

fn age(at: Timestamp) -> String {
    let seconds = Timestamp::now().duration_since(at).as_secs().max(0);
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min", seconds / 60),
        _ => format!("{} h", seconds / 3600),
    }
}

fn duration(text: &str) -> Result<SignedDuration, String> {
    let wrong = || "it is how long: `10m`, `1h`".to_owned();
    let span: Span = text.parse().map_err(|_| wrong())?;
    let duration = span
        .to_duration(SpanRelativeTo::days_are_24_hours())
        .map_err(|_| wrong())?;
    if duration.is_positive() {
        Ok(duration)
    } else {
        Err(wrong())
    }
}

fn note(text: &str) -> Result<String, String> {
    if text.contains(char::is_control) {
        return Err("a note is one line of plain text".to_owned());
    }
    if text.len() > NOTE_LIMIT {
        return Err(format!("a note may have {NOTE_LIMIT} bytes"));
    }
    Ok(text.to_owned())
}
