//! Where a search starts: the folders that the fixed part of a glob names.

use globset::GlobBuilder;

/// A glob with more alternatives is not looked into.
const MOST: usize = 64;

/// The fixed parts of a glob, one for each alternative; an alternative that climbs behind a
/// wildcard is given back whole.
///
/// # Errors
/// If it has too many alternatives.
pub fn bases(glob: &str) -> Result<Vec<String>, String> {
    let mut bases: Vec<String> = Vec::new();
    for alternative in alternatives(glob)? {
        let base = base(&alternative);
        if !bases.contains(&base) {
            bases.push(base);
        }
    }
    Ok(bases)
}

fn base(glob: &str) -> String {
    let is_wild = |name: &str| name.contains(['*', '?', '[', '{', '(']);
    let mut names = glob.split('/');
    let fixed: Vec<&str> = names.by_ref().take_while(|name| !is_wild(name)).collect();
    if names.any(|name| name == "..") {
        return glob.to_owned();
    }
    let base = fixed.join("/");
    if base.is_empty() && glob.starts_with('/') {
        "/".to_owned()
    } else {
        base
    }
}

/// The glob with `{a,b}`, `@(a|b)` and classes of one character written out.
pub(super) fn alternatives(glob: &str) -> Result<Vec<String>, String> {
    let mut open = vec![single_classes(glob)];
    let mut done = Vec::new();
    while let Some(glob) = open.pop() {
        match group(&glob) {
            None => done.push(glob),
            Some((before, choices, behind)) => {
                open.extend(
                    choices
                        .iter()
                        .map(|choice| format!("{before}{choice}{behind}")),
                );
            }
        }
        if open.len() + done.len() > MOST {
            return Err(format!("the glob has more than {MOST} alternatives"));
        }
    }
    done.reverse();
    Ok(done)
}

/// `[.]` is `.`.
fn single_classes(glob: &str) -> String {
    let mut out = String::new();
    let mut rest = glob;
    while let Some((before, after)) = rest.split_once('[') {
        out.push_str(before);
        let mut characters = after.chars();
        match (characters.next(), characters.next()) {
            (Some(c), Some(']')) => {
                out.push(c);
                rest = characters.as_str();
            }
            _ => {
                out.push('[');
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

/// The first innermost group: what stands before it, its choices, what stands behind it.
fn group(glob: &str) -> Option<(&str, Vec<&str>, &str)> {
    let mut start: Option<(usize, char)> = None;
    let mut last = '\0';
    for (at, c) in glob.char_indices() {
        match (c, start) {
            ('{', _) => start = Some((at, '{')),
            ('(', _) if "@+?*!".contains(last) => start = Some((at - 1, last)),
            ('}', Some((from, '{'))) => {
                let inner = glob.get(from + 1..at)?;
                // Without a comma it is a range or a name.
                if inner.contains(',') {
                    return Some((
                        glob.get(..from)?,
                        inner.split(',').collect(),
                        glob.get(at + 1..)?,
                    ));
                }
                start = None;
            }
            (')', Some((from, kind))) if kind != '{' => {
                let mut choices: Vec<&str> = glob.get(from + 2..at)?.split('|').collect();
                match kind {
                    '?' | '*' => choices.push(""),
                    // Whatever it is not.
                    '!' => choices = vec!["*"],
                    _ => {}
                }
                return Some((glob.get(..from)?, choices, glob.get(at + 1..)?));
            }
            _ => {}
        }
        last = c;
    }
    None
}

/// Whether one of the names matches a pattern, in any case of letters. What is no pattern
/// matches all.
pub fn matches_one<'n>(pattern: &str, mut names: impl Iterator<Item = &'n str>) -> bool {
    match GlobBuilder::new(pattern).case_insensitive(true).build() {
        Ok(glob) => {
            let matcher = glob.compile_matcher();
            names.any(|name| matcher.is_match(name))
        }
        Err(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_glob_starts_where_its_fixed_part_leads() {
        for (glob, expected) in [
            ("**/*.rs", vec![""]),
            ("src/**/*.{ts,tsx}", vec!["src"]),
            ("/etc/*", vec!["/etc"]),
            ("/*", vec!["/"]),
            ("../x/*", vec!["../x"]),
            ("{src,../outside}/*.txt", vec!["src", "../outside"]),
            ("{a,{b,/etc}}/x*", vec!["a", "b", "/etc"]),
            ("@(src|..)/*", vec!["src", ".."]),
            ("src/*/../../x", vec!["src/*/../../x"]),
            ("[.][.]/x/*", vec!["../x"]),
            ("app/[id]/*.tsx", vec!["app"]),
            ("{1..3}.txt", vec![""]),
            ("a..b/*", vec!["a..b"]),
            ("README.md", vec!["README.md"]),
            ("a{/../..,}/etc/*", vec!["a/../../etc", "a/etc"]),
        ] {
            let mut found = bases(glob).unwrap();
            found.sort();
            let mut expected: Vec<String> = expected.into_iter().map(str::to_owned).collect();
            expected.sort();
            assert_eq!(found, expected, "{glob}");
        }
        assert!(bases(&"{a,b}".repeat(20)).is_err());
    }
}
