//! Keyword search: each line by the share of the query's words that stand in it (R-000-63).

use std::fmt;
use std::path::PathBuf;

use super::fault::Fault;
use super::places::Places;
use super::root::Root;
use super::{DEFAULT_FILE, MOST_HITS};

/// A search reads no more than that, in bytes.
const TOTAL_LIMIT: usize = 64 << 20;

/// So many files that were not searched are named.
const MOST_NAMED: usize = 20;

/// The texts of all hits are not longer, in bytes. No text is cut: half a secret is not found any more.
const TEXT_LIMIT: usize = 1 << 20;

/// Something that OpenClaw remembers.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    /// The file, by the name that [`super::Memory::read`] knows it by.
    pub file: String,
    /// What stands there: a line without the blanks around it, or some lines from the gateway.
    pub text: String,
    /// How well it fits, 0 to 1.
    pub score: f64,
}

/// A file that was not searched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// The file, or how many more there are.
    pub file: String,
    /// Why, in words.
    pub why: String,
}

/// What a search found.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// What was looked for.
    pub query: String,
    /// What was found, best first.
    pub hits: Vec<Hit>,
    /// What was not searched.
    pub left_out: Vec<LeftOut>,
    /// There is no memory at all; this is where it would be.
    pub missing: Option<PathBuf>,
}

impl Found {
    /// Those hits, in that order.
    #[must_use]
    pub fn of(query: &str, hits: Vec<Hit>) -> Self {
        let mut found = Self {
            query: query.to_owned(),
            hits,
            left_out: Vec::new(),
            missing: None,
        };
        found.shorten();
        found
    }

    /// Leaves out the last hits, until the others are not too long.
    fn shorten(&mut self) {
        let mut total = 0_usize;
        self.hits.retain(|hit| {
            total = total.saturating_add(hit.text.len());
            total <= TEXT_LIMIT
        });
    }
}

/// What the tool answers.
impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(dir) = &self.missing {
            return write!(f, "No memory directory found at {}", dir.display());
        }
        if self.hits.is_empty() {
            write!(f, "No memory entries found matching \"{}\"", self.query)?;
        }
        for (index, hit) in self.hits.iter().enumerate() {
            let end = if index == 0 { "" } else { "\n" };
            let score = two_places(hit.score);
            write!(f, "{end}[{}] (score: {score}) {}", hit.file, hit.text)?;
        }
        for LeftOut { file, why } in &self.left_out {
            write!(f, "\nNot searched: {file} ({why})")?;
        }
        Ok(())
    }
}

/// Two digits behind the point. What lies exactly between two goes up, as it does in JavaScript.
fn two_places(score: f64) -> String {
    // Of the fractions between two, binary holds the odd eighths exactly: others are a bit more or less.
    let eighths = score * 8.0;
    let between = eighths.fract() == 0.0 && eighths % 2.0 != 0.0;
    format!("{:.2}", if between { score + 0.001 } else { score })
}

pub(super) fn search(places: &Places, query: &str, limit: usize) -> Found {
    let limit = limit.min(MOST_HITS);
    let lower = query.to_lowercase();
    let words: Vec<&str> = lower
        .split(is_blank)
        .filter(|word| !word.is_empty())
        .collect();
    let mut search = Search {
        words,
        limit,
        hits: Vec::new(),
        left_out: Vec::new(),
        read: 0,
        unread: 0,
    };
    let workspace = Some(places.workspace()).filter(Root::is_there);
    let older = places.older().filter(Root::is_there);
    let missing = workspace.is_none() && older.is_none();
    let mut covered = false;
    if let Some(workspace) = &workspace {
        covered = search.file(workspace, DEFAULT_FILE);
        for name in workspace.notes("memory") {
            search.file(workspace, &format!("memory/{name}"));
        }
    }
    if let Some(older) = &older {
        let names = older.notes(".").into_iter();
        // By that name, the workspace's would be read.
        for name in names.filter(|name| !covered || name != DEFAULT_FILE) {
            search.file(older, &name);
        }
    }
    search.cut();
    let mut found = Found::of(query, search.hits);
    found.left_out = search.left_out;
    if search.unread > 0 {
        found.left_out.push(LeftOut {
            file: format!("{} more files", search.unread),
            why: format!("all files have more than {} MiB", TOTAL_LIMIT >> 20),
        });
    }
    found.missing = missing.then(|| places.named().dir().to_owned());
    found
}

struct Search<'a> {
    words: Vec<&'a str>,
    limit: usize,
    hits: Vec<Hit>,
    left_out: Vec<LeftOut>,
    /// So many bytes were read.
    read: usize,
    /// So many more files were not read.
    unread: usize,
}

impl Search<'_> {
    /// Searches a file; whether there is something by that name.
    fn file(&mut self, root: &Root, name: &str) -> bool {
        if self.read > TOTAL_LIMIT {
            self.unread += 1;
            return true;
        }
        match root.read(name) {
            Ok(text) => {
                self.read = self.read.saturating_add(text.len());
                let mut keys = PrivateKeys::default();
                let lines = text.split('\n');
                for line in lines.filter(|line| !keys.hold(line)) {
                    self.line(name, line);
                }
                true
            }
            Err(Fault::TooLarge(bytes)) => {
                if self.left_out.len() < MOST_NAMED {
                    self.left_out.push(LeftOut {
                        file: name.to_owned(),
                        why: format!("larger than {} MiB", bytes >> 20),
                    });
                } else {
                    self.unread += 1;
                }
                true
            }
            Err(fault) => !fault.lets_others_try(),
        }
    }

    fn line(&mut self, file: &str, line: &str) {
        let line = line.trim_matches(is_blank);
        if line.is_empty() {
            return;
        }
        let lower = line.to_lowercase();
        let there = self.words.iter().filter(|word| lower.contains(**word));
        let there = u32::try_from(there.count()).unwrap_or(u32::MAX);
        if there == 0 {
            return;
        }
        let all = u32::try_from(self.words.len()).unwrap_or(u32::MAX);
        self.hits.push(Hit {
            file: file.to_owned(),
            text: line.to_owned(),
            score: f64::from(there) / f64::from(all),
        });
        if self.hits.len() > 1000 + self.limit {
            self.cut();
        }
    }

    /// Keeps the best; of equals, the first.
    fn cut(&mut self) {
        self.hits
            .sort_by(|one, other| other.score.total_cmp(&one.score));
        self.hits.truncate(self.limit);
    }
}

/// The private keys in a text (PEM, RFC 7468). A line from the middle of one looks like nothing by
/// itself: who redacts the answer could not know it.
#[derive(Default)]
struct PrivateKeys {
    /// The last line began one, or went on with it.
    within: bool,
}

impl PrivateKeys {
    /// Whether the next line belongs to one.
    fn hold(&mut self, line: &str) -> bool {
        if line.contains("-----BEGIN ") && line.contains("PRIVATE KEY") {
            // One that ends on the same line is known by it.
            self.within = !line.contains("-----END ");
            return self.within;
        }
        let body = line.trim_matches(|c: char| is_blank(c) || ">|*#\"'`,".contains(c));
        let is_end = body.starts_with("-----END ");
        let is_header = ["Proc-Type:", "DEK-Info:"]
            .iter()
            .any(|name| body.starts_with(name));
        let is_base64 = |c: char| c.is_ascii_alphanumeric() || "+/=".contains(c);
        let holds = self.within && (is_end || is_header || body.chars().all(is_base64));
        self.within = holds && !is_end;
        holds
    }
}

/// What JavaScript splits and trims at.
const fn is_blank(c: char) -> bool {
    (c.is_whitespace() && c != '\u{85}') || c == '\u{feff}'
}
