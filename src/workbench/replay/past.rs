//! The policies that a line was judged by, and what their tables say otherwise than the new ones.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::line::Told;
use super::reads::{Facts, Owner, Reads};
use crate::engine::Engine;
use crate::engine::bundle::{Bundle, Settings};
use crate::engine::containment::{Containment, HARD_LINK, Places};
use crate::engine::program::Program;
use crate::engine::redaction::Redaction;
use crate::engine::request::{CommandFacts, PathFacts, Resource};
use crate::facts::paths::lexical;
use crate::policy::archive::{self, Archived};
use crate::policy::source::{Source, Versions};
use crate::policy::{Layer, load_sources};

/// More sets of policies than this are not held in memory at once.
const HELD: usize = 64;

/// Policies of another time.
#[derive(Debug)]
pub struct Past {
    /// What judged then.
    pub engine: Engine,
    /// What its policies read.
    pub reads: Reads,
    /// What its tables say otherwise.
    pub differs: Differs,
    /// The layers that were in force.
    pub layers: Vec<&'static str>,
}

/// Which facts the new tables would state otherwise than those of the time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Differs {
    /// Labels of paths.
    labels: bool,
    /// Programs whose entries are others.
    programs: BTreeSet<String>,
    /// Ids of patterns that are new, gone or other ones.
    patterns: BTreeSet<String>,
    /// Tables whose facts cannot be stated again from a record: a name for each.
    pub as_recorded: BTreeSet<&'static str>,
}

/// The archive of an installation's policies, by their digests.
#[derive(Debug, Default)]
pub struct Archive {
    dir: Option<PathBuf>,
    opened: Mutex<HashMap<String, Result<Arc<Past>, Gone>>>,
}

/// Why the policies of a line are not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gone {
    /// They were not archived, or not here.
    Missing,
    /// Another version read them, or this one cannot.
    Unreadable,
}

impl Archive {
    /// The archive in that folder; without one, nothing is known.
    #[must_use]
    pub fn new(dir: Option<PathBuf>) -> Self {
        Self {
            dir,
            opened: Mutex::default(),
        }
    }

    /// The policies of that digest, compared with the new ones.
    ///
    /// # Errors
    /// If they are not to be had.
    pub fn past(&self, digest: &str, new: &Bundle) -> Result<Arc<Past>, Gone> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = opened.get(digest) {
            return known.clone();
        }
        let past = self.open(digest, new).map(Arc::new);
        if opened.len() >= HELD {
            opened.clear();
        }
        opened.insert(digest.to_owned(), past.clone());
        past
    }

    fn open(&self, digest: &str, new: &Bundle) -> Result<Past, Gone> {
        let dir: &Path = self.dir.as_deref().ok_or(Gone::Missing)?;
        let archived = archive::read(dir, digest).map_err(|_| Gone::Missing)?;
        if archived.versions != Versions::current() {
            return Err(Gone::Unreadable);
        }
        let sources = sources(&archived).ok_or(Gone::Unreadable)?;
        let bundle = load_sources(&sources).map_err(|_| Gone::Unreadable)?;
        let layers = sources.iter().map(|source| source.layer.prefix()).collect();
        Ok(Past::new(bundle, layers, new))
    }
}

fn sources(archived: &Archived) -> Option<Vec<Source>> {
    const LAYERS: [Layer; 4] = [
        Layer::Organisation,
        Layer::User,
        Layer::Workspace,
        Layer::Embedded,
    ];
    let source = |layer: &archive::ArchivedLayer| {
        let of = LAYERS
            .into_iter()
            .find(|known| known.prefix() == layer.layer)?;
        let files = layer.files.iter();
        let files = files.map(|file| (file.name.clone(), file.text.clone()));
        Some(Source::new(of, layer.dir.clone(), files))
    };
    archived.layers.iter().map(source).collect()
}

impl Past {
    /// Policies of another time beside the new ones.
    #[must_use]
    pub fn new(mut bundle: Bundle, layers: Vec<&'static str>, new: &Bundle) -> Self {
        let differs = Differs::between(&bundle.settings, &new.settings);
        // The largest part of it, which no judgement reads.
        bundle.settings.redaction = Redaction::default();
        Self {
            differs,
            reads: Reads::of(&bundle),
            layers,
            engine: Engine::new(bundle),
        }
    }
}

impl Differs {
    fn between(old: &Settings, new: &Settings) -> Self {
        let (was, is) = (&old.containment, &new.containment);
        let changed = [
            ("data_keys", was.data_keys != is.data_keys),
            ("any_shell", was.any_shell != is.any_shell),
            ("wrapper", was.wrappers != is.wrappers),
            ("interpreter", was.interpreters != is.interpreters),
            ("variable", was.variables != is.variables),
            ("leading", was.leading != is.leading),
            ("mounts", was.mounts != is.mounts),
            ("hard_links", was.hard_links != is.hard_links),
            ("workspace_root", was.workspace_root != is.workspace_root),
            ("entities", old.entities != new.entities),
            ("redaction", old.redaction != new.redaction),
        ];
        let by_id = |settings: &'_ Settings| -> BTreeMap<String, _> {
            let patterns = settings.patterns.iter();
            patterns.map(|one| (one.id.clone(), one.clone())).collect()
        };
        let (was_by, is_by) = (by_id(old), by_id(new));
        let ids = was_by.keys().chain(is_by.keys());
        Self {
            labels: was.labels != is.labels,
            programs: programs(was, is),
            patterns: ids
                .filter(|id| was_by.get(*id) != is_by.get(*id))
                .cloned()
                .collect(),
            as_recorded: changed
                .into_iter()
                .filter(|(_, changed)| *changed)
                .map(|(name, _)| name)
                .collect(),
        }
    }

    /// States the facts of one line as the new tables do. What cannot be stated again becomes
    /// unknown, or stays as it was recorded: the names of such tables are returned.
    pub fn restate(
        &self,
        told: &mut [Told],
        (old, new): (&Settings, &Settings),
        places: Option<&Places>,
    ) -> BTreeSet<&'static str> {
        let mut kept = self.as_recorded.clone();
        for one in told.iter_mut() {
            one.request.context.depth_limit = new.limits.depth;
            if !self.patterns.is_empty() {
                self.repattern(one, old, new);
            }
        }
        if !self.labels && self.programs.is_empty() {
            return kept;
        }
        let was = beside(told);
        for one in told.iter_mut() {
            match &mut one.request.resource {
                Resource::Path(path) if self.labels => {
                    let workspace = one.request.context.workspace.clone();
                    let stated = places.is_some_and(|places| {
                        let places = Places {
                            workspace: Some(workspace).filter(|root| !root.is_empty()),
                            ..places.clone()
                        };
                        let deletes = one.request.context.operation == "delete";
                        relabel_path(path, (&old.containment, &new.containment), &places, deletes)
                    });
                    if !stated {
                        kept.insert("label");
                    }
                }
                Resource::Command(command) if self.programs.contains(&command.program) => {
                    let lacking = one.unknown.meets(Facts::of(Owner::Resource, "arguments"));
                    let tables = (&old.containment, &new.containment);
                    match relabel_command(command, tables, lacking) {
                        Relabelled::Whole => {}
                        Relabelled::Paths => {
                            kept.insert("program");
                        }
                        Relabelled::Unknown => {
                            let labels = Facts::of(Owner::Resource, "labels");
                            one.unknown = one.unknown.and(labels);
                        }
                    }
                }
                _ => {}
            }
        }
        self.restate_beside(told, &was);
        kept
    }

    /// What stands beside a command is the sum of the labels on its line.
    fn restate_beside(&self, told: &mut [Told], was: &BTreeSet<String>) {
        let is = beside(told);
        let labels = Facts::of(Owner::Resource, "labels");
        let unknown = told.iter().any(|one| {
            matches!(one.request.resource, Resource::Command(_)) && one.unknown.meets(labels)
        });
        for one in told {
            let Resource::Command(command) = &mut one.request.resource else {
                continue;
            };
            if unknown {
                one.unknown = one.unknown.and(Facts::of(Owner::Resource, "beside"));
            }
            for gone in was.difference(&is) {
                command.beside.remove(gone);
            }
            let come = is.difference(was).cloned();
            // What is not understood stands beside nothing.
            if !command.program.is_empty() {
                command.beside.extend(come);
            }
        }
    }

    /// A pattern that is the same is as it was; one that is gone matches nothing; what a new one
    /// would match, the record does not tell.
    fn repattern(&self, told: &mut Told, old: &Settings, new: &Settings) {
        let found = &mut told.request.context.patterns;
        let of = |settings: &Settings, id: &String| settings.patterns.iter().any(|p| p.id == *id);
        for id in &self.patterns {
            if of(old, id) {
                found.remove(id);
            }
            if of(new, id) {
                told.unknown = told.unknown.and(Facts::of(Owner::Context, "patterns"));
            }
        }
    }
}

/// The programs of which the tables say different things.
fn programs(old: &Containment, new: &Containment) -> BTreeSet<String> {
    if old.programs == new.programs {
        return BTreeSet::new();
    }
    fn by_name(tables: &Containment) -> BTreeMap<&str, Vec<&Program>> {
        let mut all: BTreeMap<&str, Vec<_>> = BTreeMap::new();
        for entry in tables.programs.all().flatten() {
            for name in &entry.names {
                all.entry(name).or_default().push(entry);
            }
        }
        all
    }
    let (was, is) = (by_name(old), by_name(new));
    let names = was.keys().chain(is.keys());
    names
        .filter(|name| was.get(*name) != is.get(*name))
        .map(|name| (*name).to_owned())
        .collect()
}

/// The labels of all paths and commands of a line.
fn beside(told: &[Told]) -> BTreeSet<String> {
    told.iter()
        .flat_map(|one| one.request.resource.labels())
        .flatten()
        .cloned()
        .collect()
}

/// Gives a path the labels that the new tables give it, and says whether they can be told.
fn relabel_path(
    path: &mut PathFacts,
    (old, new): (&Containment, &Containment),
    places: &Places,
    deletes: bool,
) -> bool {
    if path.resolved.is_empty() {
        return false;
    }
    let written = if !path.link {
        path.resolved.clone()
    } else if path.given.starts_with('/') {
        lexical(Path::new(&path.given))
            .to_string_lossy()
            .into_owned()
    } else {
        return false;
    };
    let was = old.path_labels(&path.resolved, &written, places);
    let is = new.path_labels(&path.resolved, &written, places);
    // Where the old tables do not give what was recorded, the places are others than they were.
    if !was.is_subset(&path.labels) {
        return false;
    }
    // Labels of other names of a file, and of what is below it, are the file system's to tell.
    let plain = !deletes && !path.labels.contains(HARD_LINK);
    path.labels.extend(is.difference(&was).cloned());
    if plain {
        for gone in was.difference(&is) {
            path.labels.remove(gone);
        }
    }
    plain
}

/// How far a command's facts can be stated again.
enum Relabelled {
    /// Whole.
    Whole,
    /// Its labels are, but not which paths it would be taken to touch.
    Paths,
    /// Not at all.
    Unknown,
}

fn relabel_command(
    command: &mut CommandFacts,
    (old, new): (&Containment, &Containment),
    lacking: bool,
) -> Relabelled {
    if lacking {
        return Relabelled::Unknown;
    }
    let arguments: Vec<String> = command.arguments.iter().cloned().collect();
    let of = |tables: &Containment| {
        let (labels, entries) =
            tables.program_labels(&command.program, &command.subcommand, &arguments);
        let touches: Vec<Program> = entries
            .into_iter()
            .map(touching)
            .filter(|entry| *entry != Program::default())
            .collect();
        (labels, touches)
    };
    let ((was, touched), (is, touches)) = (of(old), of(new));
    command.labels.extend(is.difference(&was).cloned());
    for gone in was.difference(&is) {
        command.labels.remove(gone);
    }
    if touched == touches {
        Relabelled::Whole
    } else {
        Relabelled::Paths
    }
}

/// What of an entry says which paths a command touches.
fn touching(entry: &Program) -> Program {
    Program {
        names: Vec::new(),
        subcommands: Vec::new(),
        with: Vec::new(),
        besides: Vec::new(),
        without: Vec::new(),
        labels: Vec::new(),
        ..entry.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::layer;

    fn settings(change: impl Fn(&str) -> String) -> Settings {
        let embedded = layer::embedded();
        let files = embedded.files.iter().map(|file| {
            let text = match file.name.as_str() {
                "containment.toml" => change(&file.text),
                _ => file.text.clone(),
            };
            (file.name.clone(), text)
        });
        let source = Source::new(Layer::User, "p", files);
        load_sources(&[source]).unwrap().settings
    }

    fn command(text: &str) -> CommandFacts {
        let (program, rest) = text.split_once(' ').unwrap();
        CommandFacts {
            text: text.to_owned(),
            program: program.to_owned(),
            subcommand: rest.split(' ').next().unwrap().to_owned(),
            arguments: rest.split(' ').map(str::to_owned).collect(),
            certain: true,
            ..CommandFacts::default()
        }
    }

    #[test]
    fn a_row_more_labels_the_commands_that_it_speaks_of() {
        let old = settings(str::to_owned);
        let new = settings(|text| {
            format!(
                "{text}\n[[program]]\nnames = [\"mytool\"]\nsubcommands = [\"build\"]\nlabels = [\"everyday\"]\n"
            )
        });
        let differs = Differs::between(&old, &new);
        assert!(differs.programs.len() == 1 && !differs.labels && differs.as_recorded.is_empty());
        let tables = (&old.containment, &new.containment);
        let mut build = command("mytool build -v");
        assert!(matches!(
            relabel_command(&mut build, tables, false),
            Relabelled::Whole
        ));
        assert!(build.labels.contains("everyday"));
        let mut run = command("mytool run");
        relabel_command(&mut run, tables, false);
        assert!(run.labels.is_empty());
        // Without its words, nobody knows.
        assert!(matches!(
            relabel_command(&mut run, tables, true),
            Relabelled::Unknown
        ));
        assert!(!differs.programs.contains("other"));
    }

    #[test]
    fn paths_are_labelled_anew_only_where_the_places_are_the_same() {
        let old = settings(str::to_owned);
        let new = settings(|text| {
            text.replacen(
                "name = \"root_read\"\npaths = []",
                "name = \"root_read\"\npaths = [\"/srv/data\"]",
                1,
            )
        });
        let tables = (&old.containment, &new.containment);
        let places = Places {
            home: Some("/home/dev".to_owned()),
            ..Places::default()
        };
        let path = |resolved: &str, labels: &[&str]| PathFacts {
            given: resolved.to_owned(),
            resolved: resolved.to_owned(),
            labels: labels.iter().map(|label| (*label).to_owned()).collect(),
            ..PathFacts::default()
        };
        let mut data = path("/srv/data/x", &[]);
        assert!(relabel_path(&mut data, tables, &places, false));
        assert!(data.labels.contains("root_read"));
        // By the old tables it is `credentials`: it was somebody else's home.
        let mut other = path("/home/dev/.ssh/id", &[]);
        assert!(!relabel_path(&mut other, tables, &places, false));
        let mut link = PathFacts {
            given: "../x".to_owned(),
            link: true,
            ..path("/srv/data/x", &[])
        };
        assert!(!relabel_path(&mut link, tables, &places, false));
    }
}
