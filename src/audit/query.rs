//! Which lines of the record are asked about, day by day and in constant memory.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde_json::Value;

use super::line::{Line, Text};
use super::lines::Lines;
use super::record::v1::Kind;
use super::{AuditError, read};
use crate::engine::decision::Effect;

/// What a line has to have. What is not set is not asked about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Not before.
    pub since: Option<Timestamp>,
    /// Before.
    pub until: Option<Timestamp>,
    /// The session.
    pub session: Option<String>,
    /// The agent, or the one above it.
    pub agent: Option<String>,
    /// The entity.
    pub entity: Option<String>,
    /// The tool.
    pub tool: Option<String>,
    /// The machine.
    pub host: Option<String>,
    /// The decision.
    pub decision: Option<Effect>,
    /// The kind of line.
    pub kind: Option<Kind>,
    /// A policy that decided, with or without its layer.
    pub policy: Option<String>,
    /// An exception that was used, with or without its layer.
    pub exception: Option<String>,
    /// A part of a path that was asked for.
    pub path: Option<String>,
}

impl Filter {
    /// Whether the file of that day can hold a line that is asked about. A clock that was set back
    /// leaves its lines in a later day's file: only what is older than `since` is passed over.
    #[must_use]
    pub fn wants_day(&self, path: &Path) -> bool {
        let day = |time: &Timestamp| time.strftime("%Y-%m-%d").to_string();
        let Some(file) = read::day_of(path) else {
            return true;
        };
        self.since.as_ref().is_none_or(|since| *file >= *day(since))
            && self.until.as_ref().is_none_or(|until| *file <= *day(until))
    }

    /// Whether a line is asked about.
    #[must_use]
    pub fn wants(&self, line: &[u8]) -> bool {
        self.wanted(line).is_some()
    }

    /// The line, if it is asked about.
    #[must_use]
    pub fn wanted<'a>(&self, line: &'a [u8]) -> Option<Line<'a>> {
        if !self.may_be(line) {
            return None;
        }
        let line = serde_json::from_slice(line).ok()?;
        self.holds(&line).then_some(line)
    }

    /// Whether it has the words that it would need: most lines are passed over without being read.
    fn may_be(&self, line: &[u8]) -> bool {
        let texts = [
            &self.session,
            &self.agent,
            &self.entity,
            &self.tool,
            &self.host,
            &self.policy,
            &self.exception,
            &self.path,
        ];
        let words = [self.decision.map(word_of), self.kind.map(Kind::name)];
        let has = |word: &str| memchr::memmem::find(line, word.as_bytes()).is_some();
        // As it stands within a string of JSON.
        let inner = |text: &str| {
            let quoted = Value::from(text).to_string();
            quoted.trim_matches('"').to_owned()
        };
        texts.into_iter().flatten().all(|text| has(&inner(text)))
            && words.into_iter().flatten().all(has)
    }

    fn holds(&self, line: &Line<'_>) -> bool {
        let is = |text: &Text<'_>, wanted: &Option<String>| {
            wanted.is_none() || text.plain() == wanted.as_deref()
        };
        self.is_timely(line)
            && is(&line.session, &self.session)
            && (is(&line.agent, &self.agent) || is(&line.parent, &self.agent))
            && is(&line.entity, &self.entity)
            && is(&line.tool, &self.tool)
            && is(&line.host, &self.host)
            && self
                .decision
                .is_none_or(|decision| line.decision == decision)
            && self.kind.is_none_or(|kind| line.kind() == Some(kind))
            && self
                .policy
                .as_deref()
                .is_none_or(|policy| has_policy(line, policy))
            && self
                .exception
                .as_deref()
                .is_none_or(|exception| has_exception(line, exception))
            && self.path.as_deref().is_none_or(|path| has_path(line, path))
    }

    fn is_timely(&self, line: &Line<'_>) -> bool {
        if self.since.is_none() && self.until.is_none() {
            return true;
        }
        let ts = line.ts.plain().and_then(|ts| ts.parse::<Timestamp>().ok());
        ts.is_some_and(|ts| {
            self.since.is_none_or(|since| ts >= since) && self.until.is_none_or(|until| ts < until)
        })
    }
}

const fn word_of(effect: Effect) -> &'static str {
    match effect {
        Effect::Allow => "allow",
        Effect::Ask => "ask",
        Effect::Deny => "deny",
    }
}

fn has_policy(line: &Line<'_>, policy: &str) -> bool {
    line.reasons
        .iter()
        .any(|reason| is_called(&reason.id, policy))
}

fn has_exception(line: &Line<'_>, exception: &str) -> bool {
    line.exceptions().any(|one| is_called(&one.id, exception))
}

/// Whether an id is that one, with or without its layer.
fn is_called(id: &Text<'_>, wanted: &str) -> bool {
    id.plain().is_some_and(|id| {
        id == wanted || id.split_once(':').is_some_and(|(_, name)| name == wanted)
    })
}

fn has_path(line: &Line<'_>, path: &str) -> bool {
    line.requests
        .iter()
        .flat_map(|request| [&request.resource.given, &request.resource.resolved])
        .filter_map(Text::plain)
        .any(|text| text.contains(path))
}

/// Hands on every whole line of a reader, and says how many bytes they have.
///
/// # Errors
/// If it cannot be read, or `each` fails.
pub fn lines(reader: impl Read, each: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<u64> {
    let mut lines = Lines::new(reader);
    let mut bytes = 0;
    while let Some(line) = lines.line()? {
        // A line without its end is one that is being written, or never will be.
        if !line.ended {
            break;
        }
        bytes += line.length + 1;
        if !line.is_too_long() {
            each(line.bytes)?;
        }
    }
    Ok(bytes)
}

/// The end of a record that goes on: what was read of it, and what comes.
#[derive(Debug)]
pub struct Tail {
    dir: PathBuf,
    file: Option<(PathBuf, u64)>,
}

impl Tail {
    /// Begins behind so many bytes of a day's file; without one, with the first day that comes.
    #[must_use]
    pub const fn behind(dir: PathBuf, file: Option<(PathBuf, u64)>) -> Self {
        Self { dir, file }
    }

    /// Hands on the lines that have come since, over the change of the day.
    ///
    /// # Errors
    /// If the record cannot be read, or `each` fails.
    pub fn more(&mut self, each: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        // Listed first: once there is a later day, nothing is added to this one.
        let days = read::days(&self.dir).map_err(|AuditError(error)| io::Error::other(error))?;
        if let Some((path, position)) = &mut self.file {
            *position += rest(path, *position, each)?;
        }
        for day in days {
            let later = |path: &Path| read::part_of(&day) > read::part_of(path);
            if self.file.as_ref().is_none_or(|(path, _)| later(path)) {
                let bytes = rest(&day, 0, each)?;
                self.file = Some((day, bytes));
            }
        }
        Ok(())
    }
}

fn rest(
    path: &Path,
    position: u64,
    each: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<u64> {
    use std::io::Seek;
    let mut file = match read::open(path) {
        Ok(file) => file,
        // Taken away: a later day may come.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(error),
    };
    if file.metadata()?.len() <= position {
        return Ok(0);
    }
    file.seek(io::SeekFrom::Start(position))?;
    lines(file, each)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::fs;

    fn line() -> Value {
        json!({
            "ts": "2026-01-02T12:00:00.000000Z", "session": "s \"1\"", "agent": null, "parent": "p",
            "entity": "e", "tool": "view", "host": "h", "decision": "deny", "kind": "tool_use",
            "reasons": [{"id": "default:outside"}],
            "requests": [{"resource": {"type": "path", "given": "../x", "resolved": "/home/x"}}],
        })
    }

    #[test]
    fn each_part_of_a_filter_is_asked() {
        let wanted = |filter: &Filter| filter.wants(line().to_string().as_bytes());
        let some = |text: &str| Some(text.to_owned());
        let time = |text: &str| Some(text.parse::<Timestamp>().unwrap());
        let cases: [(Filter, Filter); 10] = [
            (
                Filter {
                    since: time("2026-01-02T12:00:00Z"),
                    ..Filter::default()
                },
                Filter {
                    since: time("2026-01-02T12:00:01Z"),
                    ..Filter::default()
                },
            ),
            (
                Filter {
                    until: time("2026-01-02T12:00:01Z"),
                    ..Filter::default()
                },
                Filter {
                    until: time("2026-01-02T12:00:00Z"),
                    ..Filter::default()
                },
            ),
            (
                Filter {
                    session: some("s \"1\""),
                    ..Filter::default()
                },
                Filter {
                    session: some("s"),
                    ..Filter::default()
                },
            ),
            (
                Filter {
                    agent: some("p"),
                    ..Filter::default()
                },
                Filter {
                    agent: some("view"),
                    ..Filter::default()
                },
            ),
            (
                Filter {
                    entity: some("e"),
                    ..Filter::default()
                },
                Filter {
                    entity: some("h"),
                    ..Filter::default()
                },
            ),
            (
                Filter {
                    tool: some("view"),
                    ..Filter::default()
                },
                Filter {
                    tool: some("deny"),
                    ..Filter::default()
                },
            ),
            (
                Filter {
                    decision: Some(Effect::Deny),
                    ..Filter::default()
                },
                Filter {
                    decision: Some(Effect::Ask),
                    ..Filter::default()
                },
            ),
            (
                Filter {
                    kind: Some(Kind::ToolUse),
                    ..Filter::default()
                },
                Filter {
                    kind: Some(Kind::Result),
                    ..Filter::default()
                },
            ),
            (
                Filter {
                    policy: some("outside"),
                    ..Filter::default()
                },
                Filter {
                    policy: some("default"),
                    ..Filter::default()
                },
            ),
            (
                Filter {
                    path: some("home/"),
                    host: some("h"),
                    ..Filter::default()
                },
                Filter {
                    path: some("home/y"),
                    ..Filter::default()
                },
            ),
        ];
        for (yes, no) in cases {
            assert!(wanted(&yes), "{yes:?}");
            assert!(!wanted(&no), "{no:?}");
        }
    }

    #[test]
    fn days_outside_the_range_are_not_opened() {
        let time = |text: &str| Some(text.parse::<Timestamp>().unwrap());
        let filter = Filter {
            since: time("2026-01-02T12:00:00Z"),
            until: time("2026-01-03T12:00:00Z"),
            ..Filter::default()
        };
        for (day, wanted) in [("01", false), ("02", true), ("03", true), ("04", false)] {
            let path = PathBuf::from(format!("audit-2026-01-{day}.jsonl"));
            assert_eq!(filter.wants_day(&path), wanted, "{day}");
        }
    }

    #[test]
    fn what_comes_is_followed_over_days_and_no_half_line_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let day = |day: &str| dir.path().join(format!("audit-2026-01-{day}.jsonl"));
        let mut tail = Tail::behind(dir.path().to_path_buf(), None);
        let mut more = || {
            let mut seen = Vec::new();
            tail.more(&mut |line| {
                seen.push(String::from_utf8(line.to_vec()).unwrap());
                Ok(())
            })
            .unwrap();
            seen.join(" ")
        };
        assert_eq!(more(), "");
        fs::write(day("01"), "a\nb\nha").unwrap();
        assert_eq!(more(), "a b");
        fs::write(day("01"), "a\nb\nhalf\nc\n").unwrap();
        fs::write(day("02"), "d\n").unwrap();
        assert_eq!(more(), "half c d");
        assert_eq!(more(), "");
        fs::write(day("02"), "d\ne\n").unwrap();
        fs::write(day("03"), "f\n").unwrap();
        fs::remove_file(day("01")).unwrap();
        assert_eq!(more(), "e f");
    }
}
