//! The files of one layer, as text, and the digest over all of them.

use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::diagnostic::{Code, Problem, suggest};
use super::disk::{self, Directory, Refusal, Trust};
use super::layer::Layer;
use super::settings::{exceptions, redaction, rosters};

/// The version of the policy language: file names, keys, annotations, and the schema behind them.
/// It is what `format = …` in the TOML files says.
pub const FORMAT: u32 = 1;

/// The largest file, in bytes.
pub const FILE_LIMIT: u64 = 1 << 20;

/// The most files of one layer.
pub const FILE_COUNT_LIMIT: usize = 256;

/// The most bytes of a workspace's layer.
pub const WORKSPACE_LIMIT: usize = 256 << 10;

/// The policies that this program carries, as names and texts.
pub const EMBEDDED: &[(&str, &str)] = &[
    (
        "autonomy.cedar",
        include_str!("../../policies/autonomy.cedar"),
    ),
    ("bridge.toml", include_str!("../../policies/bridge.toml")),
    (
        "containment.cedar",
        include_str!("../../policies/containment.cedar"),
    ),
    (
        "containment.toml",
        include_str!("../../policies/containment.toml"),
    ),
    (
        "entities.toml",
        include_str!("../../policies/entities.toml"),
    ),
    (
        "injection.toml",
        include_str!("../../policies/injection.toml"),
    ),
    (
        "permission.cedar",
        include_str!("../../policies/permission.cedar"),
    ),
    (
        "permission.toml",
        include_str!("../../policies/permission.toml"),
    ),
    (
        "redaction/legacy.toml",
        include_str!("../../policies/redaction/legacy.toml"),
    ),
    (
        "redaction/phi.toml",
        include_str!("../../policies/redaction/phi.toml"),
    ),
    (
        "redaction/secrets.toml",
        include_str!("../../policies/redaction/secrets.toml"),
    ),
    (
        "upstreams.toml",
        include_str!("../../policies/upstreams.toml"),
    ),
];

/// The TOML files that this version reads.
pub const SETTINGS_FILES: [&str; 8] = [
    "approvers.toml",
    "bridge.toml",
    "containment.toml",
    "entities.toml",
    exceptions::FILE,
    "injection.toml",
    "permission.toml",
    "upstreams.toml",
];

/// The directories whose files this version reads, and how those end.
const DIRECTORIES: [(&str, &str); 2] = [(redaction::DIR, ".toml"), (rosters::DIR, ".txt")];

/// The directory of the decision tests beside policies. Nothing in it judges anything.
pub const TESTS: &str = "tests";

/// Names that belong to policies, but that this version does not read.
const UNSUPPORTED: [&str; 2] = ["intents.toml", "llm.toml"];

/// The files of one layer, in the order of their names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Whose files these are.
    pub layer: Layer,
    /// The directory, as a person finds it.
    pub dir: String,
    /// The files.
    pub files: Vec<Arc<SourceFile>>,
}

/// One file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFile {
    /// Whose file it is.
    pub layer: Layer,
    /// Its name in the directory.
    pub name: String,
    /// The file, as a person finds it.
    pub path: String,
    /// What it says.
    pub text: String,
}

impl Source {
    /// A layer of files that are at hand already.
    pub fn new(
        layer: Layer,
        dir: impl Into<String>,
        files: impl IntoIterator<Item = (String, String)>,
    ) -> Self {
        let dir = dir.into();
        let mut files: Vec<_> = files
            .into_iter()
            .map(|(name, text)| Arc::new(SourceFile::new(layer, &dir, name, text)))
            .collect();
        files.sort_by(|a, b| a.name.cmp(&b.name));
        Self { layer, dir, files }
    }

    /// The file of that name.
    #[must_use]
    pub fn file(&self, name: &str) -> Option<&Arc<SourceFile>> {
        self.files.iter().find(|file| file.name == name)
    }
}

impl SourceFile {
    /// A file that somebody named, and that is part of no layer.
    #[must_use]
    pub fn alone(path: &Path, text: String) -> Arc<Self> {
        Arc::new(Self {
            text,
            ..Self::named(Layer::User, path)
        })
    }

    fn new(layer: Layer, dir: &str, name: String, text: String) -> Self {
        Self {
            layer,
            path: format!("{dir}/{name}").replace(char::is_control, "\u{fffd}"),
            name,
            text,
        }
    }

    /// What stands for a file or directory whose content is not known.
    pub(super) fn unread(layer: Layer, path: &Path) -> Arc<Self> {
        Arc::new(Self::named(layer, path))
    }

    fn named(layer: Layer, path: &Path) -> Self {
        Self {
            layer,
            name: String::new(),
            path: path.display().to_string(),
            text: String::new(),
        }
    }
}

/// What reads policies: another version may understand them differently.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Versions {
    /// That of the policy language.
    pub format: u32,
    /// That of this program.
    pub engine: String,
    /// That of Cedar.
    pub cedar: String,
}

impl Versions {
    /// Those of this program.
    #[must_use]
    pub fn current() -> Self {
        Self {
            format: FORMAT,
            engine: env!("CARGO_PKG_VERSION").to_owned(),
            cedar: cedar_policy::get_sdk_version().to_string(),
        }
    }
}

/// BLAKE3 over everything that a bundle is made of, in hexadecimal.
///
/// It names the layers, the names and bytes of their files, and the versions of what reads them.
#[must_use]
pub fn digest(sources: &[Source]) -> String {
    let layers = sources.iter().map(|source| {
        let files = source.files.iter();
        let files = files.map(|file| (file.name.as_str(), file.text.as_str()));
        (source.layer.prefix(), files)
    });
    digest_of(&Versions::current(), layers)
}

/// The digest of layers by their names, and of their files by names and texts.
pub(super) fn digest_of<'a, F: ExactSizeIterator<Item = (&'a str, &'a str)>>(
    versions: &Versions,
    layers: impl Iterator<Item = (&'a str, F)>,
) -> String {
    let mut hash = blake3::Hasher::new();
    // With its length in front, no field can pass for the end of one and the start of the next.
    let mut field = |bytes: &[u8]| {
        hash.update(&(bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    field(&versions.format.to_le_bytes());
    field(versions.engine.as_bytes());
    field(versions.cedar.as_bytes());
    for (layer, files) in layers {
        field(layer.as_bytes());
        field(&(files.len() as u64).to_le_bytes());
        for (name, text) in files {
            field(name.as_bytes());
            field(text.as_bytes());
        }
    }
    hash.finalize().to_hex().to_string()
}

/// The layer in that directory; `None` if there is no such directory.
///
/// What is there but cannot be read, or must not be, becomes a problem.
pub(super) fn read_directory(
    layer: Layer,
    path: &Path,
    problems: &mut Vec<Problem>,
) -> Option<Source> {
    read_trusting(layer, path, Trust::of(layer), problems)
}

impl Trust {
    const fn of(layer: Layer) -> Self {
        match layer {
            // A workspace's policies can only tighten, so it does not matter who else could write them.
            Layer::Workspace => Self::Anyone,
            Layer::Organisation | Layer::User | Layer::Embedded => Self::OwnerOnly,
        }
    }
}

/// The same, for a directory whose owner and mode say something else than its layer's.
pub(super) fn read_trusting(
    layer: Layer,
    path: &Path,
    trust: Trust,
    problems: &mut Vec<Problem>,
) -> Option<Source> {
    let dir = path.display().to_string();
    let mut reader = Reader {
        layer,
        path,
        trust,
        total: 0,
        files: Vec::new(),
        problems,
    };
    match Directory::open(path, trust) {
        Ok(Some(mut directory)) => reader.read_all(&mut directory),
        Ok(None) => return None,
        Err(refusal) => {
            let problem = reader.refused("", refusal);
            reader.problems.push(problem);
        }
    }
    let files = reader.files;
    Some(Source::new(layer, dir, files))
}

/// The decision tests beside the policies of a layer; none if there is no such directory.
///
/// Their files are held to the same rules of ownership and size as the policies.
pub fn read_tests(layer: Layer, path: &Path, problems: &mut Vec<Problem>) -> Vec<Arc<SourceFile>> {
    let mut reader = Reader {
        layer,
        path,
        trust: Trust::of(layer),
        total: 0,
        files: Vec::new(),
        problems,
    };
    let found = Directory::open(path, reader.trust).and_then(|directory| {
        let Some(mut directory) = directory else {
            return Ok(None);
        };
        let names = directory.names()?;
        let has_tests = names.iter().any(|name| name == TESTS);
        Ok(has_tests.then_some(directory))
    });
    match found {
        Ok(Some(directory)) => reader.read_below(&directory, TESTS, ".toml"),
        Ok(None) => {}
        Err(refusal) => {
            let problem = reader.refused("", refusal);
            reader.problems.push(problem);
        }
    }
    let files = reader.files;
    Source::new(layer, path.display().to_string(), files).files
}

struct Reader<'a> {
    layer: Layer,
    path: &'a Path,
    trust: Trust,
    total: usize,
    files: Vec<(String, String)>,
    problems: &'a mut Vec<Problem>,
}

impl Reader<'_> {
    fn read_all(&mut self, directory: &mut Directory) {
        let names = match directory.names() {
            Ok(names) => names,
            Err(refusal) => {
                let problem = self.refused("", refusal);
                return self.problems.push(problem);
            }
        };
        for name in names {
            match classify(&name) {
                Kind::Policy if self.files.len() >= FILE_COUNT_LIMIT => {
                    let problem = Problem::error(
                        Code::TooLarge,
                        format!("more than {FILE_COUNT_LIMIT} policy files in one directory"),
                    );
                    return self.problems.push(self.of(problem, ""));
                }
                Kind::Policy => self.read_file(directory, &name, name.clone()),
                Kind::Directory(ending) => self.read_below(directory, &name, ending),
                Kind::Ignored => {}
                Kind::Odd(problem) => self.problems.push(self.of(problem, &name)),
                Kind::Unknown => {
                    if directory.is_directory(&name) {
                        let problem = Problem::error(
                            Code::UnknownFile,
                            format!("policies are not read from the directory `{name}`"),
                        )
                        .help("put its files beside the others, or move it elsewhere");
                        self.problems.push(self.of(problem, &name));
                    }
                }
            }
        }
    }

    /// Reads the files of a directory in the directory.
    fn read_below(&mut self, directory: &Directory, inner: &str, ending: &str) {
        let names = directory
            .directory(inner, self.trust)
            .and_then(|mut below| Ok((below.names()?, below)));
        let (names, below) = match names {
            Ok(found) => found,
            Err(refusal) => {
                let problem = self.refused(inner, refusal);
                return self.problems.push(problem);
            }
        };
        for file in names {
            let name = format!("{inner}/{file}");
            if file.starts_with('.') || ["README.md", "NOTICE"].contains(&file.as_str()) {
                continue;
            }
            if !file.ends_with(ending) {
                let problem = Problem::error(
                    Code::UnknownFile,
                    format!("no policy file has the name `{}`", disk::printable(&name)),
                )
                .help(format!("the files in `{inner}` end in `{ending}`"));
                self.problems.push(self.of(problem, &name));
                continue;
            }
            if self.files.len() >= FILE_COUNT_LIMIT {
                let problem = Problem::error(
                    Code::TooLarge,
                    format!("more than {FILE_COUNT_LIMIT} policy files in one directory"),
                );
                return self.problems.push(self.of(problem, ""));
            }
            self.read_file(&below, &file, name);
        }
    }

    /// Reads a file of a directory; `name` is what it is called in the layer.
    fn read_file(&mut self, directory: &Directory, file: &str, name: String) {
        let bytes = match directory.read(file, self.trust, FILE_LIMIT) {
            Ok(bytes) => bytes,
            Err(refusal) => {
                let problem = self.refused(&name, refusal);
                return self.problems.push(problem);
            }
        };
        self.total += bytes.len();
        if self.layer == Layer::Workspace && self.total > WORKSPACE_LIMIT {
            let problem = Problem::error(
                Code::TooLarge,
                format!("a workspace's policies may have {WORKSPACE_LIMIT} bytes in all"),
            );
            return self.problems.push(self.of(problem, &name));
        }
        match String::from_utf8(bytes) {
            Ok(text) => self.files.push((name, text)),
            Err(error) => {
                let at = error.utf8_error().valid_up_to();
                let problem = Problem::error(
                    Code::Unreadable,
                    format!("the file is not UTF-8: byte {at} belongs to no character"),
                );
                self.problems.push(self.of(problem, &name));
            }
        }
    }

    fn of(&self, problem: Problem, name: &str) -> Problem {
        let path = if name.is_empty() {
            self.path.to_owned()
        } else {
            self.path.join(name)
        };
        problem.of(&SourceFile::unread(self.layer, &path))
    }

    fn refused(&self, name: &str, refusal: Refusal) -> Problem {
        let problem = match refusal {
            Refusal::Io(text) => {
                Problem::error(Code::Unreadable, format!("cannot be read: {text}"))
            }
            Refusal::Unsafe(text, help) => Problem::error(Code::UnsafeFile, text).help(help),
            Refusal::TooLarge => Problem::error(
                Code::TooLarge,
                format!("a policy file may have {FILE_LIMIT} bytes"),
            ),
        };
        self.of(problem, name)
    }
}

/// What a name in a policy directory stands for.
enum Kind {
    Policy,
    Directory(&'static str),
    Ignored,
    Unknown,
    Odd(Problem),
}

fn classify(name: &str) -> Kind {
    if SETTINGS_FILES.contains(&name) || (name.ends_with(".cedar") && !name.starts_with('.')) {
        return Kind::Policy;
    }
    if let Some((_, ending)) = DIRECTORIES.into_iter().find(|(known, _)| *known == name) {
        return Kind::Directory(ending);
    }
    if name.starts_with('.') || [TESTS, "README.md", "NOTICE"].contains(&name) {
        return Kind::Ignored;
    }
    if UNSUPPORTED.contains(&name) {
        return Kind::Odd(
            Problem::error(
                Code::UnsupportedFile,
                format!("`{name}` is not supported by this version"),
            )
            .help("move it elsewhere until this program is updated"),
        );
    }
    let lower = name.to_lowercase();
    let ends = |endings: &[&str]| endings.iter().any(|ending| lower.ends_with(ending));
    if ends(&[".toml", ".cedar", ".cedarschema", ".json", ".yaml", ".yml"]) {
        let known = SETTINGS_FILES.iter().copied();
        let help = suggest(name, known).unwrap_or_else(|| {
            format!(
                "policies are in `*.cedar` files, settings in {}",
                super::diagnostic::alternatives(SETTINGS_FILES)
            )
        });
        return Kind::Odd(
            Problem::error(
                Code::UnknownFile,
                format!("no policy file has the name `{}`", disk::printable(name)),
            )
            .help(help),
        );
    }
    if lower.contains(".cedar") || lower.contains(".toml") {
        return Kind::Odd(Problem::warning(
            Code::IgnoredFile,
            format!("`{}` is not read", disk::printable(name)),
        ));
    }
    Kind::Unknown
}

#[cfg(unix)]
#[cfg(test)]
mod tests;
