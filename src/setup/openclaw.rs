//! `register openclaw` and `unregister openclaw`: the plugin, and what OpenClaw's settings say of us.
//!
//! The settings are JSON5 and belong to people: all that is not ours stays as it is, byte for byte,
//! and what was added stands in the manifest with the way back.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::json::Edits;
use super::json5::Json5;
use super::manifest::{Entry, Kind, Manifest};
use super::place::Places;
use super::plan::Step;
use super::settings::{self, Merge, Wanted};
use super::uninstall::remove_empty_folders;
use super::{Ending, Rooms, Scope, SetupError, files};

/// The plugin: names and texts.
const PLUGIN: [(&str, &str); 4] = [
    (
        "bridge.js",
        include_str!("../../plugins/openclaw/bridge.js"),
    ),
    ("index.js", include_str!("../../plugins/openclaw/index.js")),
    (
        "openclaw.plugin.json",
        include_str!("../../plugins/openclaw/openclaw.plugin.json"),
    ),
    (
        "package.json",
        include_str!("../../plugins/openclaw/package.json"),
    ),
];

/// The plugin's id, and the name of its folder in the state directory's `openclaw`.
const ID: &str = "copilot-bridge";

/// Whether this program can run sessions of Copilot: without them the plugin offers no tools.
const SESSIONS: bool = false;

/// Where OpenClaw finds its settings, and its state.
const VARIABLES: [&str; 2] = ["OPENCLAW_CONFIG_PATH", "OPENCLAW_STATE_DIR"];

/// What `register openclaw` was asked for.
#[derive(Debug, Clone)]
pub struct Wish {
    /// OpenClaw's settings, where they are not at their usual place.
    pub config: Option<PathBuf>,
    /// What to register.
    pub parts: Parts,
    /// Only say what would change.
    pub dry_run: bool,
}

/// What OpenClaw can be told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parts {
    /// The plugin, which asks before each call.
    pub plugin: bool,
    /// The MCP server, through which OpenClaw calls Copilot.
    pub mcp: bool,
}

/// Tells OpenClaw of the plugin and of the MCP server (R-000-52, R-000-53).
///
/// # Errors
/// If the settings cannot be read or hold something else where ours belongs, if the policies cannot be
/// used, or if something cannot be written.
pub fn register(
    places: &Places,
    wish: &Wish,
    rooms: &dyn Rooms,
    out: &mut dyn Write,
) -> Result<Ending, SetupError> {
    let (state, policies) = (places.state(Scope::User), places.policies(Scope::User));
    let problems = rooms.inspect(&policies).problems;
    if let Some(first) = problems.first() {
        return Err(SetupError::new(
            format!(
                "the policies in `{}` cannot be used: {first}",
                policies.display()
            ),
            "run `copilot-bridge init`, or name others with `--policies`",
        ));
    }
    let config = config(places, wish.config.as_deref(), out)?;
    let mut manifest = Manifest::load(&state)?;
    let before = files::read(&config)?;
    let recorded = recorded(&manifest, &config);
    let allows = before.as_deref().is_some_and(|text| {
        Json5::parse(text).is_ok_and(|it| it.get(&keys(&["plugins", "allow"])).is_some())
    });
    let mut wanted: Vec<Wanted> = recorded
        .iter()
        .flat_map(|(merge, _)| merge.wanted())
        .filter(|wanted| !wish.parts.names(wanted))
        .cloned()
        .collect();
    if wish.parts.plugin {
        wanted.extend(plugin(places, &policies, &state, allows)?);
    }
    if wish.parts.mcp {
        let workspace = workspace(places, &config, before.as_deref());
        wanted.push(server(places, &policies, &state, &workspace)?);
    }
    let mut steps = Vec::new();
    if wish.parts.plugin {
        for (path, text) in plugin_files(&state) {
            steps.push(plugin_step(&path, text, &manifest)?);
        }
    }
    steps.extend(settings_steps(
        &config, before, recorded, &wanted, &manifest,
    )?);
    let notes = remarks(places, &steps);
    if wish.dry_run {
        return show(&steps, &notes, out);
    }
    files::make_folders(&state, files::folder_mode(files::PRIVATE))?;
    rooms.create_key(&state).map_err(|why| {
        SetupError::new(format!("the key of the record cannot be made: {why}"), "")
    })?;
    for step in steps {
        step.perform(Scope::User, &mut manifest, out)?;
        // Whatever fails next: what was written can be taken back.
        manifest.save(&state, files::PRIVATE)?;
    }
    for note in notes {
        writeln!(out, "{note}")?;
    }
    writeln!(
        out,
        "next: restart OpenClaw, then `openclaw plugins inspect {ID} --runtime --json` shows whether it holds"
    )?;
    Ok(Ending::Done)
}

/// Takes back what [`register`] wrote, and only that.
///
/// # Errors
/// If a file cannot be read, written or removed.
pub fn unregister(places: &Places, wish: &Wish, out: &mut dyn Write) -> Result<Ending, SetupError> {
    let state = places.state(Scope::User);
    let config = config(places, wish.config.as_deref(), out)?;
    let mut manifest = Manifest::load(&state)?;
    let mut ending = Ending::Done;
    let mut steps = Vec::new();
    if let Some((merge, sha256)) = recorded(&manifest, &config) {
        let kept: Vec<Wanted> = merge
            .wanted()
            .filter(|wanted| !wish.parts.names(wanted))
            .cloned()
            .collect();
        let before = files::read(&config)?;
        let after = match (&before, kept.is_empty()) {
            (None, _) => Ok((None, None)),
            (Some(text), true) => {
                settings::unmerge::<Json5>(text, merge, sha256).map(|after| (after, None))
            }
            (Some(text), false) => {
                settings::merge::<Json5>(Some(text), Some((merge, sha256)), &kept)
                    .map(|(after, merge)| (Some(after), Some(merge)))
            }
        };
        match after {
            Ok((after, merge)) => {
                steps.extend(taken_out(&config, before, after, merge, &manifest)?)
            }
            Err(why) => {
                writeln!(out, "left {}: it cannot be edited: {why}", config.display())?;
                ending = Ending::Trouble;
            }
        }
    }
    // A plugin that settings still name must stay: OpenClaw would start without its gate.
    if wish.parts.plugin && ending == Ending::Done {
        for (path, _) in plugin_files(&state) {
            let Some(entry) = manifest.find(&path) else {
                continue;
            };
            let before = files::read(&path)?;
            if before.as_deref().is_some_and(|found| !entry.wrote(found)) {
                writeln!(out, "left {}: it was edited since", path.display())?;
                ending = Ending::Trouble;
                continue;
            }
            steps.push(Step {
                path,
                before,
                after: None,
                mode: files::PRIVATE,
                entry: None,
            });
        }
    }
    if steps.is_empty() && ending == Ending::Done {
        writeln!(out, "nothing to take back")?;
    }
    if wish.dry_run {
        show(&steps, &[], out)?;
        return Ok(ending);
    }
    for step in steps {
        step.perform(Scope::User, &mut manifest, out)?;
    }
    remove_empty_folders(Scope::User, &mut manifest);
    manifest.save(&state, files::PRIVATE)?;
    Ok(ending)
}

impl Parts {
    /// Whether something in the settings belongs to these parts.
    fn names(self, wanted: &Wanted) -> bool {
        if wanted.path.first().is_some_and(|key| key == "mcp") {
            self.mcp
        } else {
            self.plugin
        }
    }
}

/// The folder of the plugin.
fn folder(state: &Path) -> PathBuf {
    state.join("openclaw").join(ID)
}

/// OpenClaw's settings: what the flag names, else what OpenClaw itself would read.
fn config(
    places: &Places,
    flag: Option<&Path>,
    out: &mut dyn Write,
) -> Result<PathBuf, SetupError> {
    let full = |path: &Path| {
        std::path::absolute(path).map_err(|error| SetupError::file("find", path, &error))
    };
    let said = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let [file, state] = VARIABLES;
    let path = match (flag, said(file), said(state)) {
        (Some(flag), ..) => full(flag)?,
        (None, Some(path), _) => {
            writeln!(
                out,
                "note: `{file}` is set, so OpenClaw's settings are there"
            )?;
            full(Path::new(&path))?
        }
        (None, None, Some(dir)) => {
            writeln!(
                out,
                "note: `{state}` is set, so OpenClaw's settings are there"
            )?;
            full(&Path::new(&dir).join("openclaw.json"))?
        }
        (None, None, None) => places.home.join(".openclaw/openclaw.json"),
    };
    // Settings may be a link into somebody's collection, and stay one.
    Ok(if files::is_link(&path) {
        path.canonicalize().unwrap_or(path)
    } else {
        path
    })
}

/// What was put into these settings before, and the digest of the text that this left behind.
fn recorded<'a>(manifest: &'a Manifest, config: &Path) -> Option<(&'a Merge, &'a str)> {
    let entry = manifest.find(config)?;
    let ours = entry.kind == Kind::Openclaw;
    ours.then_some((entry.merge.as_ref()?, entry.sha256.as_str()))
}

/// What the settings say of the plugin.
fn plugin(
    places: &Places,
    policies: &Path,
    state: &Path,
    allows: bool,
) -> Result<Vec<Wanted>, SetupError> {
    let settings = json!({
        "enabled": true,
        "config": {
            "binary": text(&places.binary)?,
            "policies": text(policies)?,
            "state": text(state)?,
            "sessions": SESSIONS,
        },
    });
    let mut wanted = vec![
        Wanted::item(&["plugins", "load", "paths"], json!(text(&folder(state))?)),
        Wanted::value(&["plugins", "entries", ID], settings),
    ];
    // A list that somebody keeps; a new one would switch off every other plugin.
    if allows {
        wanted.push(Wanted::item(&["plugins", "allow"], json!(ID)));
    }
    Ok(wanted)
}

/// Where OpenClaw's agents work: what the server is to serve, wherever the gateway is started.
fn workspace(places: &Places, config: &Path, settings: Option<&str>) -> PathBuf {
    let said = settings
        .and_then(|text| {
            Json5::parse(text)
                .ok()?
                .get(&keys(&["agents", "defaults", "workspace"]))
        })
        .and_then(|value| Some(value.as_str()?.trim().to_owned()));
    let said = said.map(|text| match text.strip_prefix("~/") {
        Some(rest) => places.home.join(rest),
        None => PathBuf::from(text),
    });
    said.filter(|path| path.is_absolute())
        .unwrap_or_else(|| config.with_file_name("workspace"))
}

/// What the settings say of the MCP server.
fn server(
    places: &Places,
    policies: &Path,
    state: &Path,
    workspace: &Path,
) -> Result<Wanted, SetupError> {
    let server = json!({
        "command": text(&places.binary)?,
        "args": ["mcp", "copilot", "--workspace", text(workspace)?, "--policies", text(policies)?, "--state", text(state)?],
    });
    Ok(Wanted::value(&["mcp", "servers", "copilot"], server))
}

fn plugin_step(path: &Path, text: &str, manifest: &Manifest) -> Result<Step, SetupError> {
    let before = files::read(path)?;
    let ours = before.as_deref().is_none_or(|found| {
        found == text || manifest.find(path).is_some_and(|entry| entry.wrote(found))
    });
    if !ours || files::is_link(path) {
        return Err(SetupError::new(
            format!(
                "`{}` is there, and not as `register` wrote it",
                path.display()
            ),
            "move it away, then run `copilot-bridge register openclaw` again",
        ));
    }
    Ok(Step {
        path: path.to_path_buf(),
        before,
        after: Some(text.to_owned()),
        mode: files::PRIVATE,
        entry: Some(Entry::new(path, Kind::Plugin, Scope::User, text)),
    })
}

/// The settings with what is wanted, behind a copy of what they were.
fn settings_steps(
    config: &Path,
    before: Option<String>,
    recorded: Option<(&Merge, &str)>,
    wanted: &[Wanted],
    manifest: &Manifest,
) -> Result<Vec<Step>, SetupError> {
    let merged = settings::merge::<Json5>(before.as_deref(), recorded, wanted);
    let (after, merge) = merged.map_err(|why| {
        SetupError::new(
            format!("`{}` cannot be edited: {why}", config.display()),
            "correct it, then run `copilot-bridge register openclaw` again",
        )
    })?;
    let mut entry = Entry::new(config, Kind::Openclaw, Scope::User, &after);
    entry.merge = Some(merge);
    let mut steps = Vec::new();
    if let Some(text) = before.as_ref().filter(|text| **text != after) {
        steps.extend(backup_step(config, text, manifest)?);
    }
    steps.push(Step {
        path: config.to_path_buf(),
        mode: files::mode_of(config).unwrap_or(files::PRIVATE),
        before,
        after: Some(after),
        entry: Some(entry),
    });
    Ok(steps)
}

/// Where the settings are kept as they were.
fn backup(config: &Path) -> PathBuf {
    let mut name = config.file_name().unwrap_or_default().to_owned();
    name.push(".before-copilot-bridge");
    config.with_file_name(name)
}

/// A copy of the settings, unless somebody keeps one there already.
fn backup_step(config: &Path, text: &str, manifest: &Manifest) -> Result<Option<Step>, SetupError> {
    let path = backup(config);
    let before = files::read(&path)?;
    let foreign = before
        .as_deref()
        .is_some_and(|found| !manifest.find(&path).is_some_and(|entry| entry.wrote(found)));
    if foreign {
        return Ok(None);
    }
    Ok(Some(Step {
        entry: Some(Entry::new(&path, Kind::Backup, Scope::User, text)),
        path,
        before,
        after: Some(text.to_owned()),
        mode: files::PRIVATE,
    }))
}

/// The settings without what is taken out; their copy goes once it is what they are.
fn taken_out(
    config: &Path,
    before: Option<String>,
    after: Option<String>,
    merge: Option<Merge>,
    manifest: &Manifest,
) -> Result<Vec<Step>, SetupError> {
    let mut steps = Vec::new();
    let copy = backup(config);
    if merge.is_none() && manifest.find(&copy).is_some() {
        let found = files::read(&copy)?;
        if found.is_none() || found == after {
            steps.push(Step {
                path: copy,
                before: found,
                after: None,
                mode: files::PRIVATE,
                entry: None,
            });
        }
    }
    let entry = merge.zip(after.as_deref()).map(|(merge, text)| {
        let mut entry = Entry::new(config, Kind::Openclaw, Scope::User, text);
        entry.merge = Some(merge);
        entry
    });
    // Before its copy goes.
    steps.insert(
        0,
        Step {
            path: config.to_path_buf(),
            mode: files::mode_of(config).unwrap_or(files::PRIVATE),
            before,
            after,
            entry,
        },
    );
    Ok(steps)
}

/// What a person should know before relying on it.
fn remarks(places: &Places, steps: &[Step]) -> Vec<String> {
    let mut notes = Vec::new();
    if !files::is_executable(&places.binary) {
        notes.push(format!(
            "warning: `{}` is no program that can be run, so every tool is denied",
            places.binary.display()
        ));
    }
    let settings = steps.iter().find_map(|step| {
        let ours = step.entry.as_ref()?.kind == Kind::Openclaw;
        Json5::parse(ours.then_some(step.after.as_deref())??).ok()
    });
    let obstacles = settings.iter().flat_map(obstacles);
    notes.extend(obstacles.map(|why| format!("warning: {why}")));
    notes
}

/// Why OpenClaw would load no plugin of ours, whatever else its settings say.
pub(super) fn obstacles(settings: &Json5) -> Vec<String> {
    let get = |path: &[&str]| settings.get(&keys(path));
    let list = |path: &[&str]| match get(path) {
        Some(Value::Array(items)) => Some(items.contains(&json!(ID))),
        _ => None,
    };
    let mut found = Vec::new();
    if get(&["plugins", "enabled"]) == Some(Value::Bool(false)) {
        found.push("`plugins.enabled` is false, so OpenClaw loads no gate".to_owned());
    }
    if list(&["plugins", "deny"]) == Some(true) {
        found.push(format!(
            "`plugins.deny` names `{ID}`, so OpenClaw loads no gate"
        ));
    }
    if list(&["plugins", "allow"]) == Some(false) {
        found.push(format!(
            "`plugins.allow` does not name `{ID}`, so OpenClaw loads no gate"
        ));
    }
    found
}

/// The plugin's files, as this version writes them.
pub(super) fn plugin_files(state: &Path) -> impl Iterator<Item = (PathBuf, &'static str)> {
    let folder = folder(state);
    PLUGIN
        .into_iter()
        .map(move |(name, text)| (folder.join(name), text))
}

/// Settings hold secrets, and the lines around a change are nobody's business here.
fn show(steps: &[Step], notes: &[String], out: &mut dyn Write) -> Result<Ending, SetupError> {
    for step in steps {
        let settings = step.entry.as_ref().map(|entry| entry.kind) == Some(Kind::Openclaw);
        if settings {
            step.show_within(0, out)?;
        } else {
            step.announce(out)?;
        }
    }
    for note in notes {
        writeln!(out, "{note}")?;
    }
    Ok(Ending::Done)
}

fn keys(path: &[&str]) -> Vec<String> {
    path.iter().map(|key| (*key).to_owned()).collect()
}

fn text(path: &Path) -> Result<&str, SetupError> {
    path.to_str().ok_or_else(|| {
        SetupError::new(
            format!("`{}` is not UTF-8, and settings are", path.display()),
            "",
        )
    })
}
