//! What a bundle holds: policies, their tests, and what they are called.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Refusal, printable};
use crate::policy::edit::Files;
use crate::policy::published::{self, OnExpiry};
use crate::policy::source::{FILE_COUNT_LIMIT, FILE_LIMIT, FORMAT, SETTINGS_FILES, Versions};
use crate::policy::{Checked, Layer, Problem, Source, check_sources};

/// The version of the form: what the keys of the payload mean.
pub const FORM: u32 = 1;

/// The name of a bundle: what tells one line of versions from another.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name(String);

impl Name {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Name {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const MOST: usize = 64;
        let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let fits = text.starts_with(word)
            && text.len() <= MOST
            && text
                .chars()
                .all(|c| word(c) || matches!(c, '.' | '_' | '-'));
        match fits {
            true => Ok(Self(text.to_owned())),
            false => Err(format!(
                "a bundle's name is at most {MOST} of `a` to `z`, `0` to `9`, `.`, `_` and `-`, and begins with a letter or a digit"
            )),
        }
    }
}

/// What a bundle says of itself besides its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    /// Its name.
    pub name: Name,
    /// Its version: a number that only grows.
    pub version: u64,
    /// When it was made.
    pub created: Timestamp,
    /// When its time is over, if ever.
    pub expires: Option<Timestamp>,
    /// What becomes of calls then.
    pub on_expiry: OnExpiry,
}

/// Policies of one name and version. Whether anybody signed them is another matter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyBundle {
    about: About,
    versions: Versions,
    digest: String,
    files: Files,
}

/// As it is signed. The order of the keys is that of the fields.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Payload {
    format: u32,
    name: String,
    version: u64,
    created: String,
    expires: Option<String>,
    on_expiry: OnExpiry,
    versions: Versions,
    digest: String,
    files: Files,
}

/// What has to be understood of any form before the rest can be.
#[derive(Deserialize)]
struct Form {
    format: u32,
}

impl PolicyBundle {
    /// The bundle of the policies in a directory, and every warning about them.
    ///
    /// # Errors
    /// Every problem, if they cannot be read or are not in order.
    pub fn build(about: About, dir: &Path) -> Result<(Self, Vec<Problem>), Vec<Problem>> {
        let files = published::content(Layer::User, dir)?;
        let versions = Versions::current();
        let bundle = Self {
            about,
            digest: published::digest(&versions, &files),
            versions,
            files,
        };
        let shown = dir.display().to_string();
        let checked = bundle.check(Layer::User, &shown);
        match checked.bundle {
            Some(_) => Ok((bundle, checked.problems)),
            None => Err(checked.problems),
        }
    }

    /// What is signed: the same bytes for the same bundle.
    #[must_use]
    pub fn payload(&self) -> Vec<u8> {
        let payload = Payload {
            format: FORM,
            name: self.about.name.to_string(),
            version: self.about.version,
            created: self.about.created.to_string(),
            expires: self.about.expires.map(|at| at.to_string()),
            on_expiry: self.about.on_expiry,
            versions: self.versions.clone(),
            digest: self.digest.clone(),
            files: self.files.clone(),
        };
        // Texts, numbers and maps with texts as keys can always be written.
        serde_json::to_vec(&payload).unwrap_or_default()
    }

    /// The bundle that was signed as those bytes.
    ///
    /// # Errors
    /// If they are none, or one that this program does not understand.
    pub fn parse(payload: &[u8]) -> Result<Self, Refusal> {
        let broken = |why: &str| Refusal::new(format!("this is no policy bundle: {why}"));
        let form: Form =
            serde_json::from_slice(payload).map_err(|_| broken("what is in it has no format"))?;
        if form.format != FORM {
            return Err(Refusal::new(format!(
                "the bundle has format {}, and this program knows {FORM}\nhelp: update the program",
                form.format
            )));
        }
        let payload: Payload = serde_json::from_slice(payload)
            .map_err(|error| broken(&printable(&error.to_string())))?;
        if payload.versions.format > FORMAT {
            return Err(Refusal::new(format!(
                "the policies in the bundle have format {}, and this program knows {FORMAT}\nhelp: update the program",
                payload.versions.format
            )));
        }
        check_files(&payload.files)?;
        if published::digest(&payload.versions, &payload.files) != payload.digest {
            return Err(broken("its digest is not that of its files"));
        }
        let time = |text: String| text.parse().map_err(|_| broken("a time in it is none"));
        let name = payload.name.parse().map_err(|why: String| broken(&why))?;
        Ok(Self {
            about: About {
                name,
                version: payload.version,
                created: time(payload.created)?,
                expires: payload.expires.map(time).transpose()?,
                on_expiry: payload.on_expiry,
            },
            versions: payload.versions,
            digest: payload.digest,
            files: payload.files,
        })
    }

    /// What it says of itself.
    #[must_use]
    pub const fn about(&self) -> &About {
        &self.about
    }

    /// What it was built with.
    #[must_use]
    pub const fn versions(&self) -> &Versions {
        &self.versions
    }

    /// BLAKE3 over its files.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// BLAKE3 over all that is signed: two bundles with the same files may differ in when they expire.
    #[must_use]
    pub fn identity(&self) -> String {
        blake3::hash(&self.payload()).to_hex().to_string()
    }

    /// Its files.
    #[must_use]
    pub const fn files(&self) -> &Files {
        &self.files
    }

    /// Its policies as a layer in that directory.
    #[must_use]
    pub fn source(&self, layer: Layer, dir: &str) -> Source {
        source(&self.files, layer, dir)
    }

    /// Everything that is wrong with its policies, as if they were in that directory.
    #[must_use]
    pub fn check(&self, layer: Layer, dir: &str) -> Checked {
        check_sources(&[self.source(layer, dir)])
    }
}

/// The policies among files, as a layer in that directory.
pub(super) fn source(files: &Files, layer: Layer, dir: &str) -> Source {
    let policies = files.iter().filter(|(name, _)| !published::is_beside(name));
    Source::new(
        layer,
        dir,
        policies.map(|(name, text)| (name.clone(), text.clone())),
    )
}

/// Names become paths: each is one that policies are read by, or that belongs to them.
fn check_files(files: &Files) -> Result<(), Refusal> {
    if files.len() > FILE_COUNT_LIMIT {
        return Err(Refusal::new(format!(
            "the bundle has more than {FILE_COUNT_LIMIT} files"
        )));
    }
    let mut folded: Vec<String> = Vec::new();
    for (name, text) in files {
        if text.len() as u64 > FILE_LIMIT {
            return Err(Refusal::new(format!(
                "`{}` in the bundle has more than {FILE_LIMIT} bytes",
                printable(name)
            )));
        }
        if !is_plain(name) || !(is_policy(name) || published::is_beside(name)) {
            return Err(Refusal::new(format!(
                "the bundle holds `{}`, which this program does not read\nhelp: update the program, or leave the file out",
                printable(name)
            )));
        }
        let lower = name.to_lowercase();
        if folded.contains(&lower) {
            return Err(Refusal::new(format!(
                "the bundle holds `{}` in two spellings",
                printable(name)
            )));
        }
        folded.push(lower);
    }
    Ok(())
}

fn is_plain(name: &str) -> bool {
    name.len() <= 200
        && name.split('/').all(|part| {
            !part.is_empty()
                && !part.starts_with('.')
                && !part.contains(|c: char| c.is_control() || matches!(c, '\\' | ':'))
        })
}

fn is_policy(name: &str) -> bool {
    match name.split_once('/') {
        None => SETTINGS_FILES.contains(&name) || name.ends_with(".cedar"),
        Some(("redaction", file)) => !file.contains('/') && file.ends_with(".toml"),
        Some(("rosters", file)) => !file.contains('/') && file.ends_with(".txt"),
        Some(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(files: &[(&str, &str)]) -> PolicyBundle {
        let files: Files = files
            .iter()
            .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
            .collect();
        let versions = Versions::current();
        PolicyBundle {
            about: About {
                name: "acme".parse().unwrap(),
                version: 7,
                created: "2026-01-02T03:04:05Z".parse().unwrap(),
                expires: None,
                on_expiry: OnExpiry::Warn,
            },
            digest: published::digest(&versions, &files),
            versions,
            files,
        }
    }

    fn why(bundle: &PolicyBundle) -> String {
        PolicyBundle::parse(&bundle.payload()).unwrap_err().message
    }

    #[test]
    fn what_is_written_is_read() {
        let bundle = made(&[
            ("a.cedar", "x"),
            ("tests/a/b.toml", ""),
            ("redaction/NOTICE", ""),
        ]);
        assert_eq!(PolicyBundle::parse(&bundle.payload()).unwrap(), bundle);
    }

    #[test]
    fn a_name_that_leads_elsewhere_is_no_file_of_a_bundle() {
        for name in [
            "../a.cedar",
            "/a.cedar",
            "x/a.cedar",
            ".a.cedar",
            "tests/../a.toml",
            "tests//a.toml",
            "redaction/a/b.toml",
            "a.txt",
            "llm.toml",
            ".bundle.json",
            "a\u{7}.cedar",
            "C:a.cedar",
            "..\\a.cedar",
            "",
            "rosters/.x.txt",
        ] {
            assert!(
                why(&made(&[(name, "")])).contains("does not read"),
                "{name}"
            );
        }
        let twice = made(&[("a.cedar", ""), ("A.cedar", "")]);
        assert!(why(&twice).contains("two spellings"));
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        let mut bundle = made(&[("a.cedar", "x")]);
        bundle.digest = "0".repeat(64);
        assert!(why(&bundle).ends_with("its digest is not that of its files"));
        let mut bundle = made(&[("a.cedar", "x")]);
        bundle.versions.format = FORMAT + 1;
        bundle.digest = published::digest(&bundle.versions, &bundle.files);
        assert!(why(&bundle).contains("this program knows"));
        let later = br#"{"format": 2, "other": 1}"#;
        let refusal = PolicyBundle::parse(later).unwrap_err().message;
        assert!(refusal.starts_with("the bundle has format 2"), "{refusal}");
        for none in [&b"{}"[..], b"", b"[]", br#"{"format": 1}"#] {
            assert!(PolicyBundle::parse(none).is_err());
        }
    }

    #[test]
    fn names_are_plain_words() {
        for good in ["acme", "acme-eu.prod_2", "0"] {
            assert_eq!(good.parse::<Name>().unwrap().as_str(), good);
        }
        for bad in ["", "Acme", "a/b", ".a", "-a", "a b", "ä", &"a".repeat(65)] {
            assert!(bad.parse::<Name>().is_err(), "{bad}");
        }
    }
}
