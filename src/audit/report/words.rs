//! What the numbers mean, and what to do: one line each, the same on a page and in Markdown.

use super::numbers::{NeverMatched, Report, Unused};
use super::text::{counted, grouped, moment, share, step};

/// How serious a sign is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    /// A guard was off.
    Alarm,
    /// Something changed, or is not as it should be.
    Warning,
    /// Good to know.
    Note,
}

impl Level {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Alarm => "guard off",
            Self::Warning => "look at it",
            Self::Note => "note",
        }
    }
}

/// Something that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sign {
    pub(super) level: Level,
    pub(super) count: u64,
    pub(super) title: &'static str,
    pub(super) meaning: &'static str,
    pub(super) action: &'static str,
}

/// What each column of marked sessions is called, in the order of the signs.
pub(super) const SIGNS: [&str; 7] = [
    "unjudged results",
    "results though denied",
    "policies unusable",
    "denials not binding",
    "only monitored",
    "policies changed",
    "version changed",
];

/// Everything that a person should look at, the most serious first.
pub(super) fn signs(report: &Report) -> Vec<Sign> {
    let found = &report.marked.signs;
    let all = [
        (
            Level::Alarm,
            report.results.unjudged,
            "Results without a preceding judgement",
            "A tool answered, but the record has no judgement of its call: the hook before the tool was off, timed out, or was not installed.",
            "Run `copilot-bridge doctor` on those machines, and read the sessions with `copilot-bridge audit query --session ID`.",
        ),
        (
            Level::Alarm,
            report.results.denied,
            "Results of calls that had been denied",
            "A tool answered although its call had been denied: the host did not keep to the answer.",
            "See docs/hosts.md for what that host does with a denial, and update it.",
        ),
        (
            Level::Warning,
            found.policy_errors,
            "Times that the policies could not be used",
            "Policies were missing, broken or not to be trusted; every call was denied meanwhile.",
            "Run `copilot-bridge policy check`.",
        ),
        (
            Level::Warning,
            found.unbound,
            "Denials that could not bind the host",
            "The host only tells of such an event, and goes on whatever the answer is.",
            "Read them with `copilot-bridge audit query --decision deny`, and judge the call before it instead.",
        ),
        (
            Level::Warning,
            found.monitored,
            "Calls that only a monitored policy would have stopped",
            "Policies with `@mode(\"monitor\")`, or all of them, only watch: these calls went on.",
            "See which below; take the mode off what has been watched long enough.",
        ),
        (
            Level::Warning,
            found.policy_changes,
            "Changes of the policies within a session",
            "Policies were edited while an agent worked, or it went into a folder with policies of its own.",
            "Ask who changed them; the digests before and after stand in the lines of the session.",
        ),
        (
            Level::Note,
            found.engine_changes,
            "Changes of this program within a session",
            "Another version of copilot-bridge judged the later part of the session.",
            "Nothing, if it was updated then.",
        ),
        (
            Level::Warning,
            report.record.unreadable,
            "Lines that cannot be read",
            "They are no lines of this record's form, and are counted nowhere else.",
            "Run `copilot-bridge audit verify`.",
        ),
        (
            Level::Note,
            report.record.superseded,
            "Denials that left before their line",
            "The deadline came while a line was being written: the host was told to deny, whatever the line says.",
            "Look at the latency; a slow disk or a held lock is the usual cause.",
        ),
        (
            Level::Note,
            report.record.recovered,
            "Torn lines that were ended",
            "A writer did not get to the end of its line: a full disk, or a process that was killed.",
            "Look for a full disk; `copilot-bridge audit verify` tells which lines.",
        ),
        (
            Level::Warning,
            report.record.lost,
            "Places where lines were gone that had been written",
            "Somebody cut the record, or the machine lost power before the lines were on its disk.",
            "Run `copilot-bridge audit verify`; compare with what was kept elsewhere.",
        ),
        (
            Level::Warning,
            report.record.refused_bundles,
            "Bundles of policies that were refused",
            "They could not be had, nobody whose key counts signed them, or they were too old; the policies before them stayed in force.",
            "`copilot-bridge audit query --kind policy` tells why; so does `copilot-bridge policy bundle status` on the machine.",
        ),
        (
            Level::Note,
            report.record.truncated,
            "Lines that something was left out of",
            "They would have been longer than 16 KiB: some requests, reasons or redactions of theirs are not counted here.",
            "Nothing.",
        ),
        (
            Level::Note,
            report.results.unknown,
            "Results whose judgement may stand earlier",
            "Their calls may have been judged before what was read, or too long ago to be remembered.",
            "Report on a longer period.",
        ),
    ];
    all.into_iter()
        .filter(|(_, count, ..)| *count > 0)
        .map(|(level, count, title, meaning, action)| Sign {
            level,
            count,
            title,
            meaning,
            action,
        })
        .collect()
}

/// What a class of faults means, and what to do.
pub(super) fn fault(class: &str) -> (&'static str, &'static str) {
    match class {
        "input_error" => (
            "What the host sent could not be understood.",
            "Update the host, or report it with the line's detail.",
        ),
        "policy_error" => (
            "The policies could not be used.",
            "Run `copilot-bridge policy check`.",
        ),
        "evaluation_error" => (
            "A policy failed while it was evaluated.",
            "Mend the policy that the line names.",
        ),
        "audit_unavailable" => (
            "The record could not be written.",
            "Look for a full disk, and at who owns the state directory.",
        ),
        "deadline" => (
            "No answer was found in time.",
            "Look at the latency; `copilot-bridge policy compile` makes hooks faster.",
        ),
        "internal_error" => (
            "A defect of copilot-bridge.",
            "Report it with the line's detail.",
        ),
        "obligation_error" => (
            "Something that a permit demands could not be done.",
            "Look at the permit's `@obligation`.",
        ),
        _ => ("This version does not know it.", "Update copilot-bridge."),
    }
}

/// What is to be said where there is no sign, and whether that is good news.
pub(super) const fn quiet(report: &Report) -> (bool, &'static str) {
    if report.events == 0 {
        return (
            false,
            "Nothing was recorded: nobody worked, or no hook was installed. `copilot-bridge doctor` tells which.",
        );
    }
    if report.results.total == 0 {
        return (
            false,
            "No sign that a guard was changed. Whether one was off cannot be told: no result was recorded, as if the hook \
             after the tool were not installed.",
        );
    }
    (true, "No sign that a guard was off or changed.")
}

/// One line on each section.
pub(super) fn over_time(report: &Report) -> String {
    format!(
        "Every decision, in steps of {} (UTC). A rise of denials is an agent that was led astray, or a policy that is too strict.",
        step(report.over_time.hours.max(1))
    )
}

pub(super) const LATENCY: &str = "From the start of the hook's process to the record. A call waits that long; at the deadline it is denied.";
pub(super) const KINDS: &str =
    "What the lines are about. Many results but few tool uses: a hook is missing.";
pub(super) const TOOLS: &str = "Which tools agents use, and how often they are stopped.";
pub(super) const POLICIES: &str = "The policies that lines name as those that decided. One that asks all the time is one that nobody reads any more.";
pub(super) const DENIED_PATHS: &str =
    "Every path of a call that was denied, resolved, with the policy of the last such call.";
pub(super) const ASKED: &str =
    "What people were asked about most. What is always approved may become a permit.";
pub(super) const REDACTIONS: &str =
    "Secrets and health information that did not get through, by the rule that found them.";
pub(super) const FAULTS: &str =
    "Denials that no policy pronounced: something was broken, so nothing was allowed.";
pub(super) const UNJUDGED: &str =
    "A result whose call has no judgement before it is the sign that a guard was off.";
pub(super) const SESSIONS: &str = "Sessions with a sign that their guard was off, or that it was another one later, the most serious first.";
pub(super) const HOSTS: &str = "The machines that the lines were written on.";
pub(super) const DIGESTS: &str = "The digests of the policies that lines were judged by. More than one: they were changed, or differ from folder to folder.";
pub(super) const VERSIONS: &str = "The versions of copilot-bridge that judged.";
pub(super) const MONITOR: &str = "only watches";
pub(super) const MONITORED: &str = "Policies with `@mode(\"monitor\")`, or all of them where the mode is `monitor`, and what calls would have come to, had they not only watched.";
pub(super) const EXCEPTIONS: &str =
    "Calls of which an exception let something through, or had it asked about instead of denied.";
pub(super) const WHOLE: &str = "Whether the record is whole, `copilot-bridge audit verify` tells.";

/// `2 Jan 2026, 03:04 to …: 12,480 lines.`
pub(super) fn period(report: &Report) -> String {
    let period = &report.period;
    let asked = match (&period.since, &period.until) {
        (None, None) => String::new(),
        (Some(since), None) => format!(" Asked for: from {}.", moment(since)),
        (None, Some(until)) => format!(" Asked for: before {}.", moment(until)),
        (Some(since), Some(until)) => {
            format!(" Asked for: from {} to {}.", moment(since), moment(until))
        }
    };
    match (&period.first, &period.last) {
        (Some(first), Some(last)) => format!(
            "{} to {} (UTC): {} of {}.{asked}",
            moment(first),
            moment(last),
            counted(report.lines, "line"),
            counted(report.sessions, "session"),
        ),
        _ => format!("There is no line in this period.{asked}"),
    }
}

/// On the policies that never decided.
pub(super) fn never_matched(report: &Report) -> String {
    match &report.never_matched {
        NeverMatched::NotGiven => {
            "That needs the policies: name their directory with `--policies DIR`.".to_owned()
        }
        NeverMatched::Broken => {
            "The policies in force cannot be loaded: run `copilot-bridge policy check`.".to_owned()
        }
        NeverMatched::Known {
            in_force,
            unmatched,
        } => format!(
            "{} of {} policies in force decided nothing in the period, compared by name. A permit may have stood behind a denial; \
             a forbid may guard what nobody tried. The others are candidates to be taken out.",
            grouped(unmatched.len() as u64),
            grouped(*in_force),
        ),
    }
}

/// On the exceptions that were not used.
pub(super) fn unused(report: &Report) -> String {
    match &report.unused_exceptions {
        Unused::NotGiven => {
            "Which were not used needs the policies: name their directory with `--policies DIR`."
                .to_owned()
        }
        Unused::Broken => {
            "Which were not used cannot be told: the policies in force cannot be loaded.".to_owned()
        }
        Unused::Known { in_force, unused } => format!(
            "{} of {} in the policies in force were not used in the period: they are candidates to be taken out.",
            grouped(unused.len() as u64),
            counted(*in_force, "exception"),
        ),
    }
}

/// Why a count may be too low, where it may.
pub(super) fn missed(missed: u64) -> Option<String> {
    (missed > 0).then(|| {
        format!(
            "There are more names than are kept: counts may be too low by up to {}.",
            grouped(missed)
        )
    })
}

/// `1,234 of 2,000 results (61.7 %) …`
pub(super) fn results(report: &Report) -> String {
    let results = &report.results;
    if results.total == 0 {
        return "No result was recorded, so none can be told.".to_owned();
    }
    format!(
        "{} of {} ({}).",
        grouped(results.unjudged),
        counted(results.total, "result"),
        share(results.unjudged, results.total)
    )
}
