//! The policies that were in force, kept beside the record: one file for each digest that a line names.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::disk::{self, Directory, Trust};
use super::source::{Source, Versions, digest_of};

/// The directory, below that of the record.
pub const DIR: &str = "policies";

/// No archive is larger: it holds what the layers may.
const LIMIT: u64 = 64 << 20;

const ENDING: &str = ".json";

/// Policies as they were.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Archived {
    /// The digest that the record names.
    pub digest: String,
    /// What read them.
    pub versions: Versions,
    /// The layers, the base first.
    pub layers: Vec<ArchivedLayer>,
}

/// One layer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArchivedLayer {
    /// Its name.
    pub layer: String,
    /// Where it was.
    pub dir: String,
    /// Its files, in their order.
    pub files: Vec<ArchivedFile>,
}

/// One file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArchivedFile {
    /// Its name in the directory.
    pub name: String,
    /// What it said.
    pub text: String,
}

/// Keeps policies, unless those of that digest are kept already.
///
/// # Errors
/// If the file cannot be written.
pub fn keep(dir: &Path, digest: &str, sources: impl FnOnce() -> Vec<Source>) -> io::Result<()> {
    let path = path(dir, digest);
    if path.try_exists()? {
        return Ok(());
    }
    let archived = Archived {
        digest: digest.to_owned(),
        versions: Versions::current(),
        layers: sources().iter().map(layer).collect(),
    };
    disk::create_dir(dir, 0o700)?;
    disk::replace(&path, &serde_json::to_vec(&archived)?, 0o600)
}

/// The policies of that digest, exactly as they were.
///
/// # Errors
/// In words, if they are not there, or are not those.
pub fn read(dir: &Path, digest: &str) -> Result<Archived, String> {
    let missing = || format!("there is no archive `{}`", path(dir, digest).display());
    let name = format!("{digest}{ENDING}");
    let bytes = Directory::open(dir, Trust::OwnerOnly)
        .ok()
        .flatten()
        .and_then(|open| open.read(&name, Trust::OwnerOnly, LIMIT).ok())
        .ok_or_else(missing)?;
    let wrong = || format!("`{}` is not what was archived", path(dir, digest).display());
    let archived: Archived = serde_json::from_slice(&bytes).map_err(|_| wrong())?;
    let layers = archived.layers.iter().map(|layer| {
        let files = layer.files.iter();
        let files = files.map(|file| (file.name.as_str(), file.text.as_str()));
        (layer.layer.as_str(), files)
    });
    if digest_of(&archived.versions, layers) != digest {
        return Err(wrong());
    }
    Ok(archived)
}

fn path(dir: &Path, digest: &str) -> PathBuf {
    dir.join(format!("{digest}{ENDING}"))
}

fn layer(source: &Source) -> ArchivedLayer {
    ArchivedLayer {
        layer: source.layer.prefix().to_owned(),
        dir: source.dir.clone(),
        files: source
            .files
            .iter()
            .map(|file| ArchivedFile {
                name: file.name.clone(),
                text: file.text.clone(),
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::digest;
    use crate::policy::layer::embedded;

    #[test]
    fn what_is_archived_is_what_the_digest_says() {
        let state = tempfile::tempdir().unwrap();
        let dir = state.path().join(DIR);
        let digest = digest(&[embedded()]);
        assert!(read(&dir, &digest).unwrap_err().contains("no archive"));
        keep(&dir, &digest, || vec![embedded()]).unwrap();
        keep(&dir, &digest, || panic!("it is there")).unwrap();
        let archived = read(&dir, &digest).unwrap();
        assert_eq!(archived.layers.len(), 1);
        let names = archived.layers[0].files.iter().map(|file| &file.name);
        assert_eq!(names.count(), embedded().files.len());
        // A changed rule, and another version, are not what was in force.
        let path = path(&dir, &digest);
        let text = std::fs::read_to_string(&path).unwrap();
        for (from, to) in [("forbid", "permit"), ("\"format\":1", "\"format\":2")] {
            assert!(text.contains(from), "{from}");
            disk::replace(&path, text.replacen(from, to, 1).as_bytes(), 0o600).unwrap();
            assert!(read(&dir, &digest).unwrap_err().contains("is not what"));
        }
    }
}
