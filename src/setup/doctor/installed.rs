//! The hooks of this program: found where hosts look for them, compared with what `init` writes.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::super::hooks::{self, Call, Found};
use super::super::json::{Document, Edits};
use super::super::manifest::{Entry, Manifest};
use super::super::place::{Places, Target};
use super::super::settings::Merge;
use super::{Host, Report, Scope, files, same_file};

/// Hooks of this program in one file.
pub(super) struct Installed {
    pub(super) scope: Scope,
    /// Whose form the file has: Copilot CLI or Claude Code.
    pub(super) host: Host,
    pub(super) path: PathBuf,
    pub(super) entries: Vec<Found>,
    /// Whether the manifest has them, word by word.
    recorded: bool,
    text: String,
    entry: Option<Entry>,
}

/// Finds them in all scopes, and says what should be there and is not.
pub(super) fn find(places: &Places, report: &mut Report) -> Vec<Installed> {
    let mut found = Vec::new();
    for scope in [Scope::Machine, Scope::User, Scope::Repo] {
        let manifest = match Manifest::load(&places.state(scope)) {
            Ok(manifest) => manifest,
            Err(error) => {
                report.error("manifest", error.message, &error.help);
                continue;
            }
        };
        for host in [Host::Copilot, Host::Claude] {
            let target = places.targets(scope, host).ok();
            let Some(target) = target.and_then(|targets| targets.into_iter().next()) else {
                continue;
            };
            let path = target.real();
            let entry = manifest.find(&path).cloned();
            match read(&path, &target, scope, host, entry.clone(), report) {
                Some(hooks) => found.push(hooks),
                None if entry.is_some() => report.error(
                    "hook-gone",
                    format!(
                        "`init` wrote hooks to `{}`, and they are gone",
                        path.display()
                    ),
                    "`copilot-bridge init` writes them again",
                ),
                None => {}
            }
        }
        let targets = [Host::Copilot, Host::Claude]
            .map(|host| places.targets(scope, host).unwrap_or_default());
        for target in targets.iter().flatten() {
            if let Some(entry) = manifest.find(&target.real()) {
                check_settings(entry, report);
            }
        }
    }
    found
}

fn read(
    path: &Path,
    target: &Target,
    scope: Scope,
    host: Host,
    entry: Option<Entry>,
    report: &mut Report,
) -> Option<Installed> {
    let text = match files::read(path) {
        Ok(text) => text?,
        Err(error) => {
            report.error(
                "hook-unreadable",
                error.message,
                "the host cannot read it either",
            );
            return None;
        }
    };
    let file: Value = match serde_json::from_str(&text) {
        Ok(file) => file,
        Err(error) => {
            let sentence = format!("`{}` is not JSON: {error}", path.display());
            report.error("hook-unreadable", sentence, "the host skips such a file");
            return None;
        }
    };
    let is_file = matches!(target, Target::HookFile(_));
    let entries: Vec<Found> = hooks::entries(&file)
        .into_iter()
        .filter(Found::is_ours)
        .collect();
    if is_file && file.get("disableAllHooks") == Some(&Value::Bool(true)) {
        report.error(
            "disable-all-hooks",
            format!("`{}` switches its own hooks off", path.display()),
            "take `disableAllHooks` out of it",
        );
    }
    (!entries.is_empty()).then(|| Installed {
        recorded: (entry.as_ref()).is_some_and(|entry| holds(entry, &text, &entries)),
        scope,
        host,
        path: path.to_path_buf(),
        entries,
        text,
        entry,
    })
}

/// Whether the manifest's entry is of this very text, or of each of these hooks in settings.
fn holds(entry: &Entry, text: &str, hooks: &[Found]) -> bool {
    let added = |body: &Value| {
        let mut items = entry.merge.iter().flat_map(Merge::wanted);
        items.any(|item| item.value.pointer("/hooks/0") == Some(body))
    };
    entry.wrote(text) || hooks.iter().all(|hook| added(&hook.body))
}

/// Whether settings still hold what was put into them.
fn check_settings(entry: &Entry, report: &mut Report) {
    let (Some(merge), Ok(Some(text))) = (&entry.merge, files::read(&entry.path)) else {
        return;
    };
    let Ok(document) = Document::parse(&text) else {
        return;
    };
    let missing = (merge.wanted())
        .filter(|wanted| !wanted.is_in(&document))
        .count();
    if missing > 0 {
        report.error(
            "settings-changed",
            format!(
                "`{}` lacks {missing} of the things that `init` put into it",
                entry.path.display()
            ),
            "run `copilot-bridge init` again",
        );
    }
}

impl Installed {
    /// Whether a host of this kind runs them.
    pub(super) fn serves(&self, host: Host) -> bool {
        // No machine-wide hooks are documented for VS Code.
        let shared = host == Host::Vscode && self.scope != Scope::Machine;
        self.host == host || (shared && self.host == Host::Claude)
    }

    /// The entry that is asked before a tool runs.
    pub(super) fn before_tool(&self) -> Option<&Found> {
        self.entries
            .iter()
            .find(|entry| entry.event.eq_ignore_ascii_case("preToolUse"))
    }

    /// The value of an option of the hook command.
    pub(super) fn argument(&self, name: &str) -> Option<String> {
        let words = self.before_tool().or(self.entries.first())?.words()?;
        let position = words.iter().position(|word| word == name)?;
        words.get(position + 1).cloned()
    }

    fn program(&self) -> Option<PathBuf> {
        let words = self.before_tool().or(self.entries.first())?.words()?;
        words.first().map(PathBuf::from)
    }

    /// Compares with what `init` would write.
    pub(super) fn check(&self, places: &Places, deadline_ms: u64, report: &mut Report) {
        let before = report.findings.len();
        self.check_program(places, report);
        self.check_events(report);
        self.check_text(places, report);
        for entry in &self.entries {
            if let Some(matcher) = &entry.matcher {
                report.error(
                    "hook-matcher",
                    format!(
                        "the matcher `{matcher}` keeps calls of `{}` away in `{}`",
                        entry.event,
                        self.path.display()
                    ),
                    "take the matcher out: a call that does not match is not judged",
                );
            }
        }
        let short = self.entries.iter().map(Found::timeout).min().unwrap_or(0);
        if short.saturating_mul(1_000) < deadline_ms.saturating_mul(3) {
            report.error(
                "hook-timeout",
                format!(
                    "`{}` lets the host wait for {short} s, and the deadline is {deadline_ms} ms",
                    self.path.display()
                ),
                "a host that gives up allows: wait three times as long at least",
            );
        }
        if report.findings.len() == before {
            report.ok(
                "hook",
                format!("`{}` is as `init` writes it", self.path.display()),
            );
        }
    }

    fn check_program(&self, places: &Places, report: &mut Report) {
        let Some(program) = self.program() else {
            return;
        };
        let shown = program.display();
        let path = self.path.display();
        if !program.is_absolute() {
            report.error(
                "hook-program",
                format!("`{path}` names `{shown}`, which is looked for in `PATH`"),
                "run `copilot-bridge init` again, which names the whole path",
            );
        } else if !files::is_executable(&program) {
            report.error(
                "hook-program",
                format!("`{path}` calls `{shown}`, which is no program"),
                "run `copilot-bridge init` again, from where the program is now",
            );
        } else if !same_file(&program, &places.binary) {
            report.warn(
                "hook-other-program",
                format!("`{path}` calls `{shown}`, and this is another program"),
                "run `copilot-bridge init` again, if this one shall judge",
            );
        }
        let programs = |entry: &Found| Some(PathBuf::from(entry.words()?.first()?));
        if self
            .entries
            .iter()
            .any(|entry| programs(entry).as_ref() != Some(&program))
        {
            report.error(
                "hook-program",
                format!("the hooks in `{path}` call different programs"),
                "move the file away, then run `copilot-bridge init` again",
            );
        }
    }

    fn check_events(&self, report: &mut Report) {
        let (wanted, judged): (&[&str], &[&str]) = match self.host {
            Host::Copilot => (&hooks::COPILOT_EVENTS, &["preToolUse", "permissionRequest"]),
            Host::Claude | Host::Vscode => (&hooks::CLAUDE_EVENTS, &["PreToolUse"]),
        };
        let missing = |event: &&&str| self.entries.iter().all(|entry| entry.event != **event);
        let unjudged: Vec<&str> = judged.iter().filter(missing).copied().collect();
        let names: Vec<&str> = wanted.iter().filter(missing).copied().collect();
        if names.is_empty() {
            return;
        }
        let sentence = format!(
            "`{}` has no hook for {}",
            self.path.display(),
            names.join(", ")
        );
        let help = "run `copilot-bridge init` again";
        if unjudged.is_empty() {
            report.warn("hook-incomplete", sentence, help);
        } else {
            report.error("hook-incomplete", sentence, help);
        }
    }

    fn check_text(&self, places: &Places, report: &mut Report) {
        let path = self.path.display();
        let expected = self.recorded || (self.entry.is_none() && self.names_our_places(places));
        if expected && self.is_as_written() {
            return;
        }
        match &self.entry {
            Some(entry) if self.recorded => report.warn(
                "hook-outdated",
                format!(
                    "version {} wrote `{path}`, and this one writes another",
                    entry.version
                ),
                "run `copilot-bridge init` again",
            ),
            Some(_) => report.error(
                "hook-edited",
                format!("`{path}` is not as `init` wrote it"),
                "move it away, then run `copilot-bridge init` again",
            ),
            None => report.error(
                "hook-unknown",
                format!("`{path}` is not as `init` would write it, and `init` did not write it"),
                "move it away, or give the flags that `init` was given",
            ),
        }
    }

    /// Whether the file is what `init` writes for the very words that it holds.
    fn is_as_written(&self) -> bool {
        let (Some(program), Some(policies)) = (self.program(), self.argument("--policies")) else {
            return false;
        };
        let state = self.argument("--state");
        let call = Call {
            program: &program,
            policies: Path::new(&policies),
            state: state.as_deref().map(Path::new),
        };
        match self.host {
            Host::Copilot => hooks::copilot_file(call).is_ok_and(|text| text == self.text),
            Host::Claude | Host::Vscode => {
                let document = Document::parse(&self.text);
                let wanted = hooks::claude_hooks(call);
                matches!((document, wanted), (Ok(document), Ok(wanted))
                    if wanted.iter().all(|it| it.is_in(&document)))
            }
        }
    }

    /// Whether the words are those that `init` would use now: a workspace can bring along a hook
    /// that calls this program with policies of its own.
    fn names_our_places(&self, places: &Places) -> bool {
        let (policies, state) = (places.policies(self.scope), places.state(self.scope));
        let call = places.call(&policies, &state, self.scope);
        self.argument("--policies").as_deref() == call.policies.to_str()
            && self.argument("--state").as_deref() == call.state.and_then(Path::to_str)
    }

    /// Whether its command may be run: a file that somebody else wrote is not a program of ours.
    pub(super) fn may_be_run(&self, places: &Places) -> bool {
        let ours = |program: &PathBuf| same_file(program, &places.binary);
        self.recorded || self.program().as_ref().is_some_and(ours)
    }
}
