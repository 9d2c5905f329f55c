//! `bundle.toml`, beside the directory of policies: where bundles come from, and whose signature
//! counts. No bundle can change it.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use toml::Spanned;

use super::address::{Address, Credentials};
use super::bundle::Name;
use crate::keys::PublicKey;
use crate::policy::published::{self, OnExpiry};
use crate::policy::source::FORMAT;
use crate::policy::{Code, Layer, Problem, SourceFile};

/// What the file is called.
pub const FILE: &str = "bundle.toml";

/// The largest file, in bytes.
const LIMIT: u64 = 64 << 10;

/// What it takes for a bundle to be put in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pin {
    /// Its name; nothing where no file says one.
    pub name: Option<Name>,
    /// Where it lies.
    pub source: Address,
    /// What proves to a server who asks.
    pub credentials: Credentials,
    /// The keys that count, each once.
    pub keys: Vec<PublicKey>,
    /// So many of them have to have signed it.
    pub threshold: usize,
    /// After so many days it has expired, whatever it says itself.
    pub max_age_days: Option<u32>,
    /// What becomes of calls then, if that is stricter than what the bundle says.
    pub on_expiry: OnExpiry,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Root {
    format: Spanned<u32>,
    bundle: Spanned<Table>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    name: Spanned<String>,
    source: Spanned<String>,
    keys: Spanned<Vec<Spanned<String>>>,
    threshold: Option<Spanned<u32>>,
    max_age_days: Option<Spanned<u32>>,
    on_expiry: Option<Spanned<String>>,
    user_env: Option<Spanned<String>>,
    password_env: Option<Spanned<String>>,
}

/// Where the file of a directory of policies is.
#[must_use]
pub fn path(policies: &Path) -> PathBuf {
    policies.parent().unwrap_or(policies).join(FILE)
}

/// What the file beside a directory of policies says; nothing if there is none.
///
/// # Errors
/// Every problem, if it is there but cannot be used.
pub fn read(layer: Layer, policies: &Path) -> Result<Option<Pin>, Vec<Problem>> {
    match published::read_guarded(layer, &path(policies), LIMIT) {
        Ok(None) => Ok(None),
        Ok(Some(file)) => parse(&Arc::new(file)).map(Some),
        Err(problem) => Err(vec![problem]),
    }
}

/// What such a file says.
///
/// # Errors
/// Every problem, if it cannot be used.
pub fn parse(file: &Arc<SourceFile>) -> Result<Pin, Vec<Problem>> {
    let root: Root = toml::from_str(&file.text).map_err(|error| {
        let problem = Problem::error(Code::TomlSyntax, plain(error.message()));
        let span = error.span().unwrap_or(0..0);
        vec![problem.at(file, span)]
    })?;
    let mut reader = Reader {
        file,
        problems: Vec::new(),
    };
    if *root.format.get_ref() != FORMAT {
        let text = format!("this version knows format {FORMAT} only");
        reader.problem(root.format.span(), Code::UnsupportedFormat, text);
    }
    let table = root.bundle.get_ref();
    let name = reader.parsed(&table.name, str::parse::<Name>);
    let source = reader.parsed(&table.source, str::parse::<Address>);
    let keys = reader.keys(&table.keys);
    let threshold = table.threshold.as_ref().map_or(1, |threshold| {
        let count = usize::try_from(*threshold.get_ref()).unwrap_or(usize::MAX);
        if count == 0 || count > keys.len() {
            let text = format!(
                "`threshold` has to be between 1 and the number of keys, {}",
                keys.len()
            );
            reader.problem(threshold.span(), Code::BadValue, text);
        }
        count
    });
    if let Some(days) = table
        .max_age_days
        .as_ref()
        .filter(|days| *days.get_ref() == 0)
    {
        reader.problem(
            days.span(),
            Code::BadValue,
            "`max_age_days` has to be 1 or more",
        );
    }
    let on_expiry = table.on_expiry.as_ref().and_then(|word| {
        reader.parsed(word, |word| {
            let mut all = OnExpiry::ALL.into_iter();
            let found = all.find_map(|(known, value)| (known == word).then_some(value));
            found.ok_or_else(|| {
                format!("`{word}` is no value of `on_expiry`: it is `warn` or `deny`")
            })
        })
    });
    let mut variable = |name: &Option<Spanned<String>>| {
        name.as_ref()
            .and_then(|name| reader.parsed(name, variable_name))
    };
    let credentials = Credentials {
        user: variable(&table.user_env),
        password: variable(&table.password_env),
    };
    match (name, source) {
        (Some(name), Some(source)) if reader.problems.is_empty() => Ok(Pin {
            name: Some(name),
            source,
            credentials,
            keys,
            threshold,
            max_age_days: table.max_age_days.as_ref().map(|days| *days.get_ref()),
            on_expiry: on_expiry.unwrap_or_default(),
        }),
        _ => Err(reader.problems),
    }
}

struct Reader<'a> {
    file: &'a Arc<SourceFile>,
    problems: Vec<Problem>,
}

impl Reader<'_> {
    fn problem(&mut self, span: Range<usize>, code: Code, text: impl Into<String>) {
        self.problems
            .push(Problem::error(code, text).at(self.file, span));
    }

    fn parsed<T, E: std::fmt::Display>(
        &mut self,
        text: &Spanned<String>,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        match parse(text.get_ref()) {
            Ok(value) => Some(value),
            Err(why) => {
                self.problem(text.span(), Code::BadValue, why.to_string());
                None
            }
        }
    }

    fn keys(&mut self, all: &Spanned<Vec<Spanned<String>>>) -> Vec<PublicKey> {
        let mut keys = Vec::new();
        for one in all.get_ref() {
            let Some(key) = self.parsed(one, str::parse::<PublicKey>) else {
                continue;
            };
            if keys.contains(&key) {
                self.problem(one.span(), Code::DuplicateId, "this key stands here twice");
            } else {
                keys.push(key);
            }
        }
        if all.get_ref().is_empty() {
            self.problem(
                all.span(),
                Code::BadValue,
                "`keys` is empty: nobody could sign a bundle",
            );
        }
        keys
    }
}

fn variable_name(name: &str) -> Result<String, &'static str> {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    match !name.is_empty() && name.chars().all(word) {
        true => Ok(name.to_owned()),
        false => Err("this is the name of an environment variable, not its value"),
    }
}

/// The parser's own words, without the names of types.
fn plain(message: &str) -> String {
    message
        .replace("expected a string", "expected a text")
        .replace("expected u32", "expected a whole number")
        .replace("expected a sequence", "expected a list")
        .replace("expected struct Table", "expected a table")
        .replace("field", "key")
        .replace("invalid type: string", "this is the text")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::SigningKey;

    fn file(text: &str) -> Arc<SourceFile> {
        Arc::new(SourceFile {
            layer: Layer::User,
            name: FILE.to_owned(),
            path: "/p/bundle.toml".to_owned(),
            text: text.to_owned(),
        })
    }

    fn underlined(text: &str) -> Vec<String> {
        let problems = parse(&file(text)).unwrap_err();
        let found = problems.iter();
        found
            .map(|one| one.underlined().unwrap_or_default().to_owned())
            .collect()
    }

    #[test]
    fn a_file_says_what_it_takes() {
        let key = SigningKey::generate().unwrap().public();
        let pin = parse(&file(&format!(
            "format = 1\n[bundle]\nname = \"acme\"\nsource = \"https://x.example/a\"\nkeys = [\"{key}\"]\n\
             max_age_days = 30\non_expiry = \"deny\"\npassword_env = \"TOKEN\"\n"
        )))
        .unwrap();
        assert_eq!((pin.keys.as_slice(), pin.threshold), (&[key][..], 1));
        assert_eq!(
            (pin.max_age_days, pin.on_expiry),
            (Some(30), OnExpiry::Deny)
        );
        assert_eq!(pin.credentials.password.as_deref(), Some("TOKEN"));
    }

    #[test]
    fn what_is_wrong_is_underlined() {
        let key = SigningKey::generate().unwrap().public();
        let with = |more: &str| {
            format!(
                "format = 1\n[bundle]\nname = \"acme\"\nsource = \"/x\"\nkeys = [\"{key}\"]\n{more}\n"
            )
        };
        for (text, wrong) in [
            (with("threshold = 2"), "2"),
            (with("threshold = 0"), "0"),
            (with("max_age_days = 0"), "0"),
            (with("on_expiry = \"allow\""), "\"allow\""),
            (with("password_env = \"Bearer x\""), "\"Bearer x\""),
            (with("nam = 1"), "nam"),
            (with("").replace("\"acme\"", "\"Acme!\""), "\"Acme!\""),
            (
                with("").replace("\"/x\"", "\"http://x.example/y\""),
                "\"http://x.example/y\"",
            ),
            (with("").replace("format = 1", "format = 2"), "2"),
            (
                with("").replace(&key.to_string(), "ed25519:x"),
                "\"ed25519:x\"",
            ),
            (with("").replace(&format!("\"{key}\""), ""), "[]"),
            (with("").replace(&format!("\"{key}\""), "1"), "1"),
        ] {
            assert_eq!(underlined(&text), [wrong], "{text}");
        }
        let all = with("threshold = 9")
            .replace("\"acme\"", "\"\"")
            .replace("\"/x\"", "\"y\"");
        assert_eq!(underlined(&all), ["\"\"", "\"y\"", "9"]);
    }
}
