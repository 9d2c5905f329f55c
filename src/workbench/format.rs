//! Cedar files in one form: each policy by Cedar's own formatter, and between them what people wrote.

use std::str::FromStr;

use cedar_policy::PolicySet;
use cedar_policy_formatter::{Config, policies_str_to_pretty};

use crate::policy::check_sources;
use crate::policy::diagnostic::{Code, Problem};
use crate::policy::layer::Layer;
use crate::policy::source::Source;

/// What Cedar's formatter does where nobody told it anything: what it wrote in an editor is in form
/// here as well.
const CONFIG: Config = Config {
    line_width: 80,
    indent_width: 2,
};

/// The file in its form. Comments stay, and so does one empty line wherever there are some between
/// policies and comments.
///
/// # Errors
/// If the file is no Cedar, or if it would mean something else afterwards.
pub fn format(path: &str, text: &str) -> Result<String, Vec<Problem>> {
    let (dir, name) = path.rsplit_once('/').unwrap_or((".", path));
    let source = Source::new(Layer::User, dir, [(name.to_owned(), text.to_owned())]);
    // It parses, and is not nested so deeply that a parser could not return.
    let mut problems = check_sources(std::slice::from_ref(&source)).problems;
    problems.retain(|problem| matches!(problem.code, Code::CedarSyntax | Code::TooDeep));
    if !problems.is_empty() {
        return Err(problems);
    }
    crate::engine::on_known_stack(|| in_form(text)).ok_or_else(|| {
        let problem = Problem::error(
            Code::Changed,
            "formatted, the file would mean something else or lose a comment",
        )
        .help("it was left as it is; write the policy in question in a simpler way");
        let problem = match source.files.first() {
            Some(file) => problem.of(file),
            None => problem,
        };
        vec![problem]
    })
}

/// The text in its form; `None` if that would mean something else.
fn in_form(text: &str) -> Option<String> {
    let before = PolicySet::from_str(text).ok()?;
    let mut out = String::with_capacity(text.len() * 2);
    let mut rest = text;
    while let Some(piece) = Piece::first(rest) {
        paragraphs(piece.above, &mut out);
        let policy = policies_str_to_pretty(piece.policy, &CONFIG).ok()?;
        out.push_str(policy.trim_end());
        if !piece.behind.is_empty() {
            out.push(' ');
            out.push_str(piece.behind.trim());
        }
        out.push('\n');
        rest = piece.rest;
    }
    // The last line may have no end.
    paragraphs(&format!("{rest}\n"), &mut out);
    out.truncate(out.trim_end().len());
    if !out.is_empty() {
        out.push('\n');
    }
    let after = PolicySet::from_str(&out).ok()?;
    let same = before.to_json().ok()? == after.to_json().ok()?;
    (same && comments(text).eq(comments(&out))).then_some(out)
}

/// The policies of a text, each up to its semicolon.
pub(super) fn policies(text: &str) -> impl Iterator<Item = &str> {
    commented(text).map(|(_, policy)| policy)
}

/// The policies of a text, each with what stands above it.
pub(super) fn commented(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let piece = Piece::first(rest)?;
        rest = piece.rest;
        Some((piece.above, piece.policy))
    })
}

/// One policy and what stands around it.
struct Piece<'t> {
    /// Comments and empty lines above it.
    above: &'t str,
    /// The policy, up to its semicolon.
    policy: &'t str,
    /// The comment behind the semicolon, or nothing.
    behind: &'t str,
    /// What follows.
    rest: &'t str,
}

impl<'t> Piece<'t> {
    /// The first policy of a text; `None` if there is none.
    fn first(text: &'t str) -> Option<Self> {
        let mut start = None;
        for token in Tokens(text) {
            let at = offset(text, token);
            if token.starts_with("//") {
                continue;
            }
            let begin = *start.get_or_insert(at);
            if token != ";" {
                continue;
            }
            let (above, policy) = text.get(..=at)?.split_at_checked(begin)?;
            let rest = text.get(at + 1..)?;
            let line = rest.split('\n').next().unwrap_or_default();
            let has_comment = line.trim_start().starts_with("//");
            let (behind, rest) = rest.split_at_checked(if has_comment { line.len() } else { 0 })?;
            return Some(Self {
                above,
                policy,
                behind,
                rest,
            });
        }
        None
    }
}

/// Comments, strings, and every other character that is no white space.
struct Tokens<'t>(&'t str);

impl<'t> Iterator for Tokens<'t> {
    type Item = &'t str;

    fn next(&mut self) -> Option<&'t str> {
        let text = self.0.trim_start();
        let first = text.chars().next()?;
        let length = if text.starts_with("//") {
            text.find('\n').unwrap_or(text.len())
        } else if first == '"' {
            string(text)
        } else {
            first.len_utf8()
        };
        let (token, rest) = text.split_at_checked(length)?;
        self.0 = rest;
        Some(token)
    }
}

/// How many bytes the string has that the text begins with.
fn string(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Where a part of the text begins.
fn offset(text: &str, part: &str) -> usize {
    part.as_ptr().addr().saturating_sub(text.as_ptr().addr())
}

/// The comments of a text, without the white space around them.
fn comments(text: &str) -> impl Iterator<Item = &str> {
    let comments = Tokens(text).filter(|token| token.starts_with("//"));
    comments.map(str::trim_end)
}

/// Writes comment lines, with one empty line wherever there are some. Policies have one between them.
fn paragraphs(text: &str, out: &mut String) {
    // What stands in front of the policy on its own line is no line.
    let text = text.rsplit_once('\n').map_or("", |(lines, _)| lines);
    let mut gap = true;
    for line in text.split('\n').map(str::trim) {
        if line.is_empty() {
            gap = true;
            continue;
        }
        if gap && !out.is_empty() {
            out.push('\n');
        }
        gap = false;
        out.push_str(line);
        out.push('\n');
    }
    if gap && !out.is_empty() {
        out.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::source::EMBEDDED;

    const POLICY: &str =
        "@id(\"a\")\npermit (principal, action, resource)\nwhen { context.depth < 3 };\n";

    fn formatted(text: &str) -> String {
        format("a.cedar", text).unwrap()
    }

    #[test]
    fn what_is_formatted_stays() {
        for (name, text) in EMBEDDED.iter().filter(|(name, _)| name.ends_with(".cedar")) {
            let once = formatted(text);
            assert_eq!(formatted(&once), once, "{name}");
        }
    }

    #[test]
    fn what_cedars_own_formatter_writes_is_in_form() {
        for (name, text) in EMBEDDED.iter().filter(|(name, _)| name.ends_with(".cedar")) {
            let own = policies_str_to_pretty(text, &Config::default()).unwrap();
            assert_eq!(formatted(&own), own, "{name}");
        }
    }

    #[test]
    fn policies_have_one_form() {
        let text = "@id(\"a\")permit(principal,action,resource)when{context.depth<3};";
        assert_eq!(formatted(text), POLICY);
        assert_eq!(
            formatted(&format!("\n\n  {text}{text}\n\n\n")),
            format!("{POLICY}\n{POLICY}")
        );
        assert_eq!(formatted(""), "");
        assert_eq!(
            formatted("// only\r\n\r\n\r\n// this"),
            "// only\n\n// this\n"
        );
    }

    #[test]
    fn comments_stay_where_they_are() {
        let text = format!(
            "// The file.\n\n// ---- Part ----\n\n// Of a.\n{POLICY}\n// Of b; \"quoted\n{POLICY}\n// The end.\n"
        );
        assert_eq!(formatted(&text), text);
        let inside = "@id(\"a;//b\")\npermit (principal, action, resource) // who\nwhen\n{\n  // deep\n  context.depth < 3\n}; // behind; it\n";
        let once = formatted(inside);
        for comment in ["// who", "// deep", "}; // behind; it\n", "a;//b"] {
            assert!(once.contains(comment), "{once}");
        }
        assert_eq!(formatted(&once), once);
    }

    #[test]
    fn what_is_no_cedar_is_underlined() {
        let problems = format(
            "p/a.cedar",
            "permit(principal, action, resource) whn { true };",
        )
        .unwrap_err();
        assert_eq!(problems[0].code, Code::CedarSyntax);
        assert_eq!(problems[0].underlined(), Some("whn"));
        let deep = format!(
            "permit(principal, action, resource) when {{ {}true{} }};",
            "(".repeat(5000),
            ")".repeat(5000)
        );
        assert_eq!(format("a.cedar", &deep).unwrap_err()[0].code, Code::TooDeep);
    }
}
