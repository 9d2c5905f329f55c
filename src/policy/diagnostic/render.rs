//! Problems for people (text with carets), for programs (JSON) and for code hosts (SARIF).

use std::collections::BTreeMap;
use std::fmt::Write;

use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{Annotation, AnnotationKind, Group, Level, Origin, Renderer, Snippet};
use serde_json::{Value, json};

use super::{Code, Problem, Severity};

/// The version of the JSON form.
pub const JSON_VERSION: u32 = 1;

/// Each problem with its lines and a caret under what is wrong, and a last line that counts them.
#[must_use]
pub fn text(problems: &[Problem], colour: bool) -> String {
    let mut out = snippets(problems, colour);
    out.push_str(&summary(problems));
    out.push('\n');
    out
}

/// Each problem with its lines and a caret under what is wrong.
#[must_use]
pub fn snippets(problems: &[Problem], colour: bool) -> String {
    let renderer = if colour {
        Renderer::styled()
    } else {
        Renderer::plain()
    };
    let renderer = renderer.decor_style(DecorStyle::Ascii);
    let mut out = String::new();
    for problem in problems {
        out.push_str(&renderer.render(&[group(problem)]));
        out.push_str("\n\n");
    }
    out
}

/// `{"version":1,"problems":[…]}`, for programs.
#[must_use]
pub fn json(problems: &[Problem]) -> Value {
    let problems: Vec<Value> = problems.iter().map(json_problem).collect();
    json!({ "version": JSON_VERSION, "problems": problems })
}

/// SARIF 2.1.0, which code hosts show beside the lines.
#[must_use]
pub fn sarif(problems: &[Problem]) -> Value {
    let mut rules: BTreeMap<Code, usize> = problems.iter().map(|p| (p.code, 0)).collect();
    for (index, place) in rules.values_mut().enumerate() {
        *place = index;
    }
    let descriptions: Vec<Value> = rules
        .keys()
        .map(|code| {
            json!({
                "id": code.name(),
                "shortDescription": { "text": code.description() },
            })
        })
        .collect();
    let results: Vec<Value> = problems
        .iter()
        .map(|problem| sarif_result(problem, rules.get(&problem.code).copied().unwrap_or(0)))
        .collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": env!("CARGO_PKG_NAME"),
                "version": env!("CARGO_PKG_VERSION"),
                "rules": descriptions,
            }},
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    })
}

/// A workflow command for each problem, which GitHub shows beside the lines.
#[must_use]
pub fn github(problems: &[Problem]) -> String {
    let mut out = String::new();
    for problem in problems {
        let command = match problem.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "notice",
        };
        let mut properties = format!("title={}", command_property(problem.code.name()));
        if let Some(file) = &problem.file {
            let _ = write!(properties, ",file={}", command_property(&file.path));
        }
        if let Some(at) = problem.position() {
            let _ = write!(properties, ",line={},endLine={}", at.line, at.end_line);
            // Columns of different lines would be refused.
            if at.line == at.end_line {
                let _ = write!(properties, ",col={},endColumn={}", at.column, at.end_column);
            }
        }
        let mut text = problem.message.clone();
        if let Some(help) = &problem.help {
            let _ = write!(text, " ({help})");
        }
        let _ = writeln!(out, "::{command} {properties}::{}", command_data(&text));
    }
    out
}

/// Text of a workflow command.
#[must_use]
pub fn command_data(text: &str) -> String {
    text.replace('%', "%25")
        .replace('\r', "%0D")
        .replace('\n', "%0A")
}

/// The value of a property of a workflow command.
#[must_use]
pub fn command_property(text: &str) -> String {
    command_data(text).replace(':', "%3A").replace(',', "%2C")
}

/// `2 errors, 1 warning`, or that there is nothing to say.
#[must_use]
pub fn summary(problems: &[Problem]) -> String {
    let count = |severity: Severity| {
        let number = problems.iter().filter(|p| p.severity == severity).count();
        match number {
            0 => None,
            1 => Some(format!("1 {}", severity.name())),
            n => Some(format!("{n} {}s", severity.name())),
        }
    };
    let parts: Vec<String> = [Severity::Error, Severity::Warning, Severity::Note]
        .into_iter()
        .filter_map(count)
        .collect();
    if parts.is_empty() {
        return "no problems".to_owned();
    }
    parts.join(", ")
}

fn group(problem: &Problem) -> Group<'_> {
    let level = match problem.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
        Severity::Note => Level::NOTE,
    };
    let mut group = Group::with_title(
        level
            .primary_title(problem.message.as_str())
            .id(problem.code.name()),
    );
    group = match (&problem.file, &problem.span) {
        (Some(file), Some(span)) => group.element(
            Snippet::<Annotation<'_>>::source(file.text.as_str())
                .path(file.path.as_str())
                .annotation(AnnotationKind::Primary.span(shortened(&file.text, span))),
        ),
        (Some(file), None) => group.element(Origin::path(file.path.as_str())),
        (None, _) => group,
    };
    match &problem.help {
        Some(help) => group.element(Level::HELP.message(help.as_str())),
        None => group,
    }
}

/// A place of many lines, as its first one: a whole policy under a problem hides the problem.
fn shortened(text: &str, span: &std::ops::Range<usize>) -> std::ops::Range<usize> {
    let end = span.end.min(text.len());
    let start = span.start.min(end);
    let line = text
        .get(start..end)
        .and_then(|piece| piece.find('\n'))
        .map_or(end, |at| start + at);
    start..line
}

/// One problem, for programs.
#[must_use]
pub fn json_problem(problem: &Problem) -> Value {
    let at = problem.position();
    let file = problem.file.as_ref();
    json!({
        "severity": problem.severity.name(),
        "code": problem.code.name(),
        "message": problem.message,
        "help": problem.help,
        "layer": file.map(|file| file.layer.prefix()),
        "file": file.map(|file| file.path.as_str()),
        "line": at.map(|at| at.line),
        "column": at.map(|at| at.column),
        "end_line": at.map(|at| at.end_line),
        "end_column": at.map(|at| at.end_column),
    })
}

fn sarif_result(problem: &Problem, rule: usize) -> Value {
    let mut text = problem.message.clone();
    if let Some(help) = &problem.help {
        let _ = write!(text, " ({help})");
    }
    let mut result = serde_json::Map::new();
    result.insert("ruleId".to_owned(), problem.code.name().into());
    result.insert("ruleIndex".to_owned(), rule.into());
    result.insert("level".to_owned(), problem.severity.name().into());
    result.insert("message".to_owned(), json!({ "text": text }));
    if let Some(file) = &problem.file {
        let mut location = serde_json::Map::new();
        let artifact = json!({ "uri": uri(&file.path) });
        location.insert("artifactLocation".to_owned(), artifact);
        if let Some(at) = problem.position() {
            let region = json!({
                "startLine": at.line,
                "startColumn": at.column,
                "endLine": at.end_line,
                "endColumn": at.end_column,
            });
            location.insert("region".to_owned(), region);
        }
        let locations = json!([{ "physicalLocation": location }]);
        result.insert("locations".to_owned(), locations);
    }
    Value::Object(result)
}

/// The path as a URI: `file:` for an absolute one, else relative to where the report is read.
#[must_use]
pub fn uri(path: &str) -> String {
    let mut uri = String::new();
    if path.starts_with('/') {
        uri.push_str("file://");
    }
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            let _ = write!(uri, "%{byte:02X}");
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::layer::Layer;
    use crate::policy::source::Source;

    #[test]
    fn no_text_leaves_its_command() {
        assert_eq!(command_data("a\n::error::b"), "a%0A::error::b");
        assert_eq!(command_property("a,b:c%\n"), "a%2Cb%3Ac%25%0A");
    }

    fn problems() -> Vec<Problem> {
        let text = "format = 1\nmod\u{1b}e = \"enfocre\"\n";
        let files = [("bridge.toml".to_owned(), text.to_owned())];
        let source = Source::new(Layer::User, "/etc/a b", files);
        let file = &source.files[0];
        vec![
            Problem::error(Code::BadValue, "`enfocre` is no value of `mode`")
                .help("it is `enforce` or `monitor`")
                .at(file, 19..28),
            Problem::warning(Code::IgnoredFile, "`x` is not read").of(file),
        ]
    }

    #[test]
    fn text_underlines_and_counts() {
        let text = text(&problems(), false);
        assert!(!text.contains('\u{1b}'), "no escape sequence of a file");
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        assert_eq!(
            lines,
            [
                "error[bad-value]: `enfocre` is no value of `mode`",
                " --> /etc/a b/bridge.toml:2:9",
                "  |",
                "2 | mod␛e = \"enfocre\"",
                "  |         ^^^^^^^^^",
                "  |",
                "  = help: it is `enforce` or `monitor`",
                "",
                "warning[ignored-file]: `x` is not read",
                "--> /etc/a b/bridge.toml",
                "",
                "1 error, 1 warning",
            ]
        );
    }

    #[test]
    fn workflow_commands_are_escaped() {
        assert_eq!(
            github(&problems()),
            "::error title=bad-value,file=/etc/a b/bridge.toml,line=2,endLine=2,col=9,endColumn=18::\
             `enfocre` is no value of `mode` (it is `enforce` or `monitor`)\n\
             ::warning title=ignored-file,file=/etc/a b/bridge.toml::`x` is not read\n"
        );
        let odd = Problem::error(Code::BadValue, "100 %").of(&Source::new(
            Layer::User,
            "/a,b:c",
            [("x.toml".to_owned(), String::new())],
        )
        .files[0]);
        assert_eq!(
            github(&[odd]),
            "::error title=bad-value,file=/a%2Cb%3Ac/x.toml::100 %25\n"
        );
    }

    #[test]
    fn json_has_places() {
        let json = json(&problems());
        assert_eq!(json["version"], 1);
        let first = &json["problems"][0];
        assert_eq!((&first["line"], &first["column"]), (&json!(2), &json!(9)));
        assert_eq!(first["layer"], "user");
        assert_eq!(json["problems"][1]["line"], Value::Null);
    }

    #[test]
    fn sarif_has_regions_and_uris() {
        let sarif = sarif(&problems());
        let run = &sarif["runs"][0];
        let result = &run["results"][0];
        let place = &result["locations"][0]["physicalLocation"];
        assert_eq!(
            place["artifactLocation"]["uri"],
            "file:///etc/a%20b/bridge.toml"
        );
        assert_eq!(place["region"]["startLine"], 2);
        let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
        assert_eq!(
            run["tool"]["driver"]["rules"][index]["id"],
            result["ruleId"]
        );
    }
}
