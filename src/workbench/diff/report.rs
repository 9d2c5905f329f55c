//! What is not the same, for people, for programs and for code hosts.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use serde_json::{Value, json};

use super::policies::PolicyChange;
use super::settings::{Change, SettingChange};
use super::{Compared, Diff, Direction, Flip, Known, Observed, Shift, Side};
use crate::engine::describe;
use crate::policy::diagnostic::render;
use crate::workbench::prove::Unprovable;

/// The version of the JSON form.
pub const JSON_VERSION: u32 = 1;

const HEAD: Style = Style::new().bold();
const GONE: Style = AnsiColor::Red.on_default();
const NEW: Style = AnsiColor::Green.on_default();

/// Everything that is not the same, and what that means for calls.
///
/// # Errors
/// If it cannot be written.
pub fn text(diff: &Diff, old: &Side, new: &Side, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{HEAD}policies{HEAD:#}  {} -> {}", old.name, new.name)?;
    if diff.policies.is_empty() {
        writeln!(out, "  the same {} policies", new.bundle.policies.len())?;
    }
    for change in &diff.policies {
        policy(change, out)?;
    }
    writeln!(out, "\n{HEAD}settings{HEAD:#}")?;
    if diff.settings.is_empty() {
        writeln!(out, "  the same")?;
    }
    for change in &diff.settings {
        writeln!(out, "  {}", setting(change))?;
    }
    writeln!(out, "\n{HEAD}calls{HEAD:#}")?;
    for general in &diff.general {
        writeln!(out, "  {}: {}", general.direction.name(), general.text)?;
    }
    proofs(diff, out)?;
    for observed in &diff.observed {
        observation(observed, out)?;
    }
    let uncovered = diff.uncovered();
    if !uncovered.is_empty() {
        writeln!(
            out,
            "  not covered by proofs, which take the facts of a call as they come: {}",
            uncovered.join(", ")
        )?;
    }
    writeln!(out, "\n{}", summary(diff))
}

/// One line: what the difference is.
#[must_use]
pub fn summary(diff: &Diff) -> String {
    match diff.known() {
        Known::Same if diff.may_differ() => "the calls are answered as before".to_owned(),
        Known::Same => "nothing that could change an answer is different".to_owned(),
        Known::Different {
            looser: true,
            stricter: true,
        } => "looser for some calls, stricter for others".to_owned(),
        Known::Different { looser: true, .. } => "looser".to_owned(),
        Known::Different { .. } => "stricter".to_owned(),
        Known::Unknown => {
            "no call was found that is answered otherwise, but there may be one".to_owned()
        }
    }
}

fn policy(change: &PolicyChange, out: &mut dyn Write) -> io::Result<()> {
    let place = match (&change.old, &change.new) {
        (Some(old), Some(new)) if old != new => format!("{old} -> {new}"),
        (Some(place), _) | (None, Some(place)) => place.clone(),
        (None, None) => String::new(),
    };
    let parts = match change.parts.is_empty() {
        true => String::new(),
        false => format!(": {}", change.parts.join(", ")),
    };
    writeln!(out, "  {} `{}`{parts} ({place})", change.verb(), change.id)?;
    for line in &change.lines {
        let style = match line.sign {
            '-' => GONE,
            '+' => NEW,
            _ => Style::new(),
        };
        writeln!(out, "    {style}{} {}{style:#}", line.sign, line.text)?;
    }
    Ok(())
}

/// One setting, in a line.
#[must_use]
pub fn setting(change: &SettingChange) -> String {
    let (file, key) = (&change.file, &change.key);
    match &change.change {
        Change::Value(None, Some(new)) => format!("{file}: {key} added: {new}"),
        Change::Value(Some(old), None) => format!("{file}: {key} removed: {old}"),
        Change::Value(old, new) => {
            let text = |value: &Option<String>| value.clone().unwrap_or_default();
            format!("{file}: {key} changed: {} -> {}", text(old), text(new))
        }
        Change::Members { added, removed } => {
            let mut line = format!("{file}: {key}");
            for (sign, all) in [('-', removed), ('+', added)] {
                if !all.is_empty() {
                    let _ = write!(line, " {sign}[{}]", all.join(", "));
                }
            }
            line
        }
        Change::Order => format!("{file}: {key}: the entries stand in another order"),
        Change::Names { added, removed } => {
            format!("{file}: {added} names added, {removed} removed")
        }
    }
}

fn proofs(diff: &Diff, out: &mut dyn Write) -> io::Result<()> {
    let proofs = match &diff.proofs {
        Ok(proofs) => proofs,
        Err(why) => {
            writeln!(out, "  nothing was proved: {why}")?;
            return writeln!(out, "    help: {}", why.help());
        }
    };
    let same = |compared: &&Compared| compared.shifts.is_empty() && compared.doubts.is_empty();
    let equal = proofs.environments.iter().filter(same).count();
    writeln!(
        out,
        "  proved by {} in {}: {equal} of {} kinds of requests are answered as before, whatever is called",
        proofs.solver,
        short(proofs.took),
        proofs.environments.len(),
    )?;
    for compared in &proofs.environments {
        for found in &compared.shifts {
            shift(&compared.environment, found, out)?;
        }
        for doubt in &compared.doubts {
            writeln!(out, "  unknown: {}: {doubt}", compared.environment)?;
        }
    }
    Ok(())
}

fn shift(environment: &str, shift: &Shift, out: &mut dyn Write) -> io::Result<()> {
    let way = Direction::of(shift.from, shift.to).map_or("", Direction::name);
    let by = |ids: &[String]| match ids.is_empty() {
        true => String::new(),
        false => format!(" ({})", ids.join(", ")),
    };
    writeln!(
        out,
        "  {way}: {environment}: {}{} -> {}{}",
        shift.from,
        by(&shift.old),
        shift.to,
        by(&shift.new),
    )?;
    writeln!(out, "    such as {}", describe(&shift.request))?;
    let request = serde_json::to_value(&shift.request).unwrap_or_default();
    writeln!(out, "    {request}")
}

fn observation(observed: &Observed, out: &mut dyn Write) -> io::Result<()> {
    let (source, judged) = (observed.source, observed.judged);
    let changed = observed.looser + observed.stricter;
    writeln!(
        out,
        "  by the {source}: {judged} calls were judged, {changed} are answered otherwise: {} looser, {} stricter",
        observed.looser, observed.stricter
    )?;
    for (why, count) in &observed.left_out {
        writeln!(out, "    {count} were not judged: {why}")?;
    }
    for flip in &observed.flips {
        let way = Direction::of(flip.from, flip.to).map_or("", Direction::name);
        let by = match flip.by.is_empty() {
            true => String::new(),
            false => format!(" ({})", flip.by.join(", ")),
        };
        writeln!(
            out,
            "    {way}: {} -> {}{by}: {} ({})",
            flip.from, flip.to, flip.call, flip.place
        )?;
    }
    match changed.checked_sub(observed.flips.len()) {
        Some(more) if more > 0 => writeln!(out, "    and {more} more"),
        _ => Ok(()),
    }
}

/// `{"version":1,"result":…}`, for programs.
#[must_use]
pub fn json(diff: &Diff, old: &Side, new: &Side) -> Value {
    let (result, looser, stricter) = match diff.known() {
        Known::Same => ("same", false, false),
        Known::Different { looser, stricter } => ("different", looser, stricter),
        Known::Unknown => ("unknown", false, false),
    };
    json!({
        "version": JSON_VERSION,
        "old": { "name": old.name, "digest": old.bundle.digest },
        "new": { "name": new.name, "digest": new.bundle.digest },
        "result": result,
        "looser": looser,
        "stricter": stricter,
        "policies": diff.policies.iter().map(json_policy).collect::<Vec<_>>(),
        "settings": diff.settings.iter().map(json_setting).collect::<Vec<_>>(),
        "general": diff.general.iter().map(|general| json!({
            "direction": general.direction.name(), "text": general.text,
        })).collect::<Vec<_>>(),
        "proofs": json_proofs(diff),
        "not_covered": diff.uncovered(),
        "observed": diff.observed.iter().map(json_observed).collect::<Vec<_>>(),
    })
}

fn json_policy(change: &PolicyChange) -> Value {
    let lines = change.lines.iter();
    let lines = lines.map(|line| format!("{}{}", line.sign, line.text));
    json!({
        "id": change.id,
        "change": change.verb(),
        "parts": change.parts,
        "decides": change.decides(),
        "old": change.old,
        "new": change.new,
        "lines": lines.collect::<Vec<_>>(),
    })
}

fn json_setting(change: &SettingChange) -> Value {
    let what = match &change.change {
        Change::Value(old, new) => json!({ "old": old, "new": new }),
        Change::Members { added, removed } => json!({ "added": added, "removed": removed }),
        Change::Order => json!({ "order": true }),
        Change::Names { added, removed } => json!({ "added": added, "removed": removed }),
    };
    json!({
        "file": change.file,
        "key": change.key,
        "decides": change.decides(),
        "change": what,
    })
}

fn json_proofs(diff: &Diff) -> Value {
    let error = |why: &Unprovable| json!({ "error": why.to_string(), "help": why.help() });
    let proofs = match &diff.proofs {
        Ok(proofs) => proofs,
        Err(why) => return error(why),
    };
    let environments = proofs.environments.iter().map(|compared| {
        json!({
            "environment": compared.environment,
            "shifts": compared.shifts.iter().map(json_shift).collect::<Vec<_>>(),
            "doubts": compared.doubts,
        })
    });
    json!({
        "solver": proofs.solver,
        "ms": u64::try_from(proofs.took.as_millis()).unwrap_or(u64::MAX),
        "environments": environments.collect::<Vec<_>>(),
    })
}

fn json_shift(shift: &Shift) -> Value {
    json!({
        "direction": Direction::of(shift.from, shift.to).map(Direction::name),
        "from": shift.from,
        "to": shift.to,
        "old": shift.old,
        "new": shift.new,
        "request": serde_json::to_value(&shift.request).unwrap_or_default(),
    })
}

fn json_observed(observed: &Observed) -> Value {
    let left_out = observed.left_out.iter();
    let left_out = left_out.map(|(why, count)| json!({ "why": why, "count": count }));
    json!({
        "source": observed.source,
        "judged": observed.judged,
        "looser": observed.looser,
        "stricter": observed.stricter,
        "left_out": left_out.collect::<Vec<_>>(),
        "flips": observed.flips.iter().map(json_flip).collect::<Vec<_>>(),
    })
}

fn json_flip(flip: &Flip) -> Value {
    json!({
        "direction": Direction::of(flip.from, flip.to).map(Direction::name),
        "from": flip.from,
        "to": flip.to,
        "call": flip.call,
        "place": flip.place,
        "policies": flip.by,
    })
}

fn short(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

/// Lines for a GitHub workflow: an error for what gets looser, a warning for what gets stricter.
#[must_use]
pub fn github(diff: &Diff) -> String {
    let mut out = String::new();
    let mut line = |direction: Option<Direction>, text: String| {
        let level = match direction {
            Some(Direction::Looser) => "error",
            Some(Direction::Stricter) => "warning",
            None => "notice",
        };
        let title = direction.map_or("policy diff", Direction::name);
        let text = render::command_data(&text);
        let _ = writeln!(out, "::{level} title={title}::{text}");
    };
    for general in &diff.general {
        line(Some(general.direction), general.text.to_owned());
    }
    for compared in diff.proofs.iter().flat_map(|proofs| &proofs.environments) {
        for shift in &compared.shifts {
            let way = Direction::of(shift.from, shift.to);
            let (environment, call) = (&compared.environment, describe(&shift.request));
            let text = format!(
                "{environment}: {} -> {}, such as {call}",
                shift.from, shift.to
            );
            line(way, text);
        }
        for doubt in &compared.doubts {
            line(
                None,
                format!("not known: {}: {doubt}", compared.environment),
            );
        }
    }
    if let Err(why) = &diff.proofs {
        line(None, format!("nothing was proved: {why}"));
    }
    for flip in diff.observed.iter().flat_map(|observed| &observed.flips) {
        let way = Direction::of(flip.from, flip.to);
        let (from, to) = (flip.from, flip.to);
        line(
            way,
            format!("{from} -> {to}: {} ({})", flip.call, flip.place),
        );
    }
    for change in &diff.policies {
        line(None, format!("policy `{}` {}", change.id, change.verb()));
    }
    for change in &diff.settings {
        line(None, setting(change));
    }
    line(None, summary(diff));
    out
}
