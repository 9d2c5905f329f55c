//! `doctor`: whether the hooks that `init` wrote are there, are called, and decide.

mod bundles;
mod foreign;
mod installed;
mod openclaw;
mod road;
mod upkeep;

use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::place::Places;
use super::remarks::{caller, weak_spots};
use super::{Coverage, Ending, Host, Inspection, Rooms, Scope, SetupError, files};
use installed::Installed;

/// One thing that doctor found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Its name, which stays the same from version to version.
    pub id: &'static str,
    /// How bad it is.
    pub level: Level,
    /// What was found.
    pub sentence: String,
    /// What a person can do about it, or empty.
    pub help: String,
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// As it should be.
    Ok,
    /// Worth a look.
    Warning,
    /// Something passes that should not, or nothing does.
    Error,
}

impl Level {
    const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// Looks at everything that decides whether a call is judged.
///
/// Installed hooks are run with a state directory that goes away again, so nothing is recorded.
pub fn examine(places: &Places, rooms: &dyn Rooms) -> Vec<Finding> {
    let mut report = Report::default();
    binary(places, &mut report);
    let installed = installed::find(places, &mut report);
    hosts(places, &installed, &mut report);
    let deadline = policies(places, &installed, rooms, &mut report);
    bundles::look(places, &installed, &mut report);
    for hook in &installed {
        hook.check(places, deadline, &mut report);
    }
    openclaw::look(places, &mut report);
    foreign::look(places, &installed, &mut report);
    upkeep::look(places, &installed, rooms, &mut report);
    for hook in &installed {
        road::walk(hook, places, rooms, &mut report);
    }
    report.findings
}

/// Prints the findings for a person.
///
/// # Errors
/// If they cannot be printed.
pub fn print_text(findings: &[Finding], out: &mut dyn Write) -> Result<Ending, SetupError> {
    for finding in findings {
        let level = finding.level.name();
        writeln!(out, "{level:7} {}: {}", finding.id, finding.sentence)?;
        if !finding.help.is_empty() {
            writeln!(out, "        help: {}", finding.help)?;
        }
    }
    let (errors, warnings) = (
        count(findings, Level::Error),
        count(findings, Level::Warning),
    );
    writeln!(out, "{errors} errors, {warnings} warnings")?;
    Ok(ending(findings))
}

/// Prints the findings as one JSON object.
///
/// # Errors
/// If they cannot be printed.
pub fn print_json(findings: &[Finding], out: &mut dyn Write) -> Result<Ending, SetupError> {
    let object = serde_json::json!({
        "v": 1,
        "version": env!("CARGO_PKG_VERSION"),
        "errors": count(findings, Level::Error),
        "warnings": count(findings, Level::Warning),
        "findings": findings,
    });
    writeln!(out, "{object:#}")?;
    Ok(ending(findings))
}

fn count(findings: &[Finding], level: Level) -> usize {
    findings.iter().filter(|it| it.level == level).count()
}

fn ending(findings: &[Finding]) -> Ending {
    if count(findings, Level::Error) == 0 {
        Ending::Done
    } else {
        Ending::Trouble
    }
}

/// The findings so far.
#[derive(Default)]
struct Report {
    findings: Vec<Finding>,
}

impl Report {
    fn ok(&mut self, id: &'static str, sentence: impl Into<String>) {
        self.add(id, Level::Ok, sentence, "");
    }

    fn warn(&mut self, id: &'static str, sentence: impl Into<String>, help: &str) {
        self.add(id, Level::Warning, sentence, help);
    }

    fn error(&mut self, id: &'static str, sentence: impl Into<String>, help: &str) {
        self.add(id, Level::Error, sentence, help);
    }

    fn add(&mut self, id: &'static str, level: Level, sentence: impl Into<String>, help: &str) {
        self.findings.push(Finding {
            id,
            level,
            sentence: sentence.into(),
            help: help.to_owned(),
        });
    }
}

fn binary(places: &Places, report: &mut Report) {
    report.ok(
        "binary",
        format!(
            "version {} at `{}`",
            env!("CARGO_PKG_VERSION"),
            places.binary.display()
        ),
    );
}

/// Which hosts are here, and which of them have a hook.
fn hosts(places: &Places, installed: &[Installed], report: &mut Report) {
    let homes = |names: &[&str]| names.iter().any(|name| places.home.join(name).exists());
    let here = [
        (
            Host::Copilot,
            in_path("copilot") || places.copilot_home.exists(),
        ),
        (
            Host::Claude,
            in_path("claude") || places.claude_home.exists(),
        ),
        (
            Host::Vscode,
            in_path("code") || homes(&[".vscode", ".vscode-server", ".config/Code"]),
        ),
    ];
    for (host, _) in here.iter().filter(|(_, here)| *here) {
        let name = host.name();
        let covered = installed.iter().any(|hook| hook.serves(*host));
        if covered {
            report.ok("host", format!("{name} is here and has hooks"));
        } else {
            report.warn(
                "host-without-hook",
                format!("{name} is here and has no hooks of this program"),
                match host {
                    Host::Copilot => "`copilot-bridge init` installs them",
                    Host::Claude => "`copilot-bridge init --host claude` installs them",
                    Host::Vscode => "`copilot-bridge init --host vscode` installs them",
                },
            );
        }
    }
    if installed.is_empty() {
        report.error(
            "no-hook",
            "no host is told to ask this program, so nothing is judged",
            "`copilot-bridge init` installs the hooks",
        );
    }
    let copilot =
        |scope| (installed.iter()).any(|hook| hook.scope == scope && hook.host == Host::Copilot);
    let shut_out = foreign::managed_hooks_only(places);
    if !shut_out
        && [Scope::User, Scope::Machine, Scope::Repo]
            .map(copilot)
            .iter()
            .filter(|it| **it)
            .count()
            > 1
    {
        report.warn(
            "judged-twice",
            "Copilot CLI has these hooks in more than one scope, so each call is judged twice",
            "`copilot-bridge uninstall` takes one of them back",
        );
    }
    if copilot(Scope::Machine) && shut_out {
        let trusted = places.is_rerooted().then(caller).flatten();
        for spot in weak_spots(&places.binary, trusted) {
            report.error(
                "binary-replaceable",
                format!("{spot}, so an agent could replace this program"),
                "install it below a folder that only root may write",
            );
        }
    }
}

/// What the policies of the hooks say; returns their longest deadline in milliseconds.
fn policies(
    places: &Places,
    installed: &[Installed],
    rooms: &dyn Rooms,
    report: &mut Report,
) -> u64 {
    let mut deadline = 0;
    for folder in policy_folders(places, installed) {
        if !folder.is_dir() {
            report.error(
                "policies-gone",
                format!(
                    "hooks name `{}`, which is not there: every call is denied",
                    folder.display()
                ),
                "`copilot-bridge init` writes the defaults",
            );
            continue;
        }
        let Inspection {
            problems,
            deadline_ms,
            passes_unrecorded,
            approves_unverified,
            coverage,
        } = rooms.inspect(&folder);
        deadline = deadline.max(deadline_ms);
        if problems.is_empty() {
            report.ok("policies", format!("`{}` can be used", folder.display()));
            covered(&coverage, report);
        }
        for problem in problems {
            report.error("policy-problem", problem, "until then every call is denied");
        }
        if approves_unverified {
            report.error(
                "unverified-approvals",
                format!(
                    "`{}` says `unverified = \"accept\"`: EVERY PROGRAM OF THIS USER CAN APPROVE A CALL, THE AGENT TOO",
                    folder.display()
                ),
                "take it out of approvers.toml, and name people and their keys there",
            );
        }
        if passes_unrecorded {
            report.error(
                "on-failure-allow",
                format!(
                    "`{}` says `on_failure = \"allow\"`: CALLS PASS WITHOUT A RECORD",
                    folder.display()
                ),
                "take it out, unless an outage is worse than a gap in the record",
            );
        }
    }
    deadline
}

/// What is taken out of texts, and what is not.
fn covered(coverage: &Coverage, report: &mut Report) {
    let Coverage {
        secret_rules,
        secret_kinds,
        entities,
        fields,
        rosters,
    } = coverage;
    if *secret_rules == 0 {
        report.warn(
            "redaction",
            "no rule looks for secrets: results and prompts reach the model as they are",
            "`redaction/secrets.toml` has rules",
        );
    } else {
        report.ok(
            "redaction",
            format!("{secret_rules} rules look for secrets of {secret_kinds} kinds"),
        );
    }
    if !entities {
        report.ok(
            "health",
            "health information is not looked for: entities.toml names nobody",
        );
        return;
    }
    let fields: Vec<String> = fields
        .iter()
        .map(|(field, rules)| format!("{field} ({rules})"))
        .collect();
    report.ok(
        "health",
        format!(
            "health information is looked for, by rules: {}",
            fields.join(", ")
        ),
    );
    if *rosters {
        report.ok(
            "health-names",
            "the names of the rosters are found, others in named fields only",
        );
    } else {
        report.warn(
            "health-names",
            "no roster: names are found in named fields only",
            "`rosters = [...]` in entities.toml names files with one name a line",
        );
    }
}

/// The policy folders that hooks name, or those that they would.
fn policy_folders(places: &Places, installed: &[Installed]) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = (installed.iter())
        .filter_map(|hook| Some(PathBuf::from(hook.argument("--policies")?)))
        .collect();
    if folders.is_empty() {
        folders.push(places.policies(Scope::User));
        folders.retain(|folder| folder.exists());
    }
    folders.sort();
    folders.dedup();
    folders
}

/// Whether a program of this name can be started. `PATH` decides nothing but this sentence.
fn in_path(name: &str) -> bool {
    std::env::var_os("PATH").is_some_and(|path| {
        std::env::split_paths(&path).any(|folder| files::is_executable(&folder.join(name)))
    })
}

fn same_file(one: &Path, other: &Path) -> bool {
    one == other
        || matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

#[cfg(test)]
mod tests;
