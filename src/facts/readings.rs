//! What else a text may mean to whoever takes it for a path: trimmed, unquoted, decoded, expanded.
//!
//! The kernel takes a path as it stands, but tools do not always hand it over as it stands.

use std::borrow::Cow;
use std::path::Path;

use percent_encoding::percent_decode_str;
use unicode_normalization::UnicodeNormalization;

use super::globs::alternatives;

/// A text that can be read in more ways is not looked into.
const MOST: usize = 64;

/// What a text may mean as a path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Readings {
    /// The readings, without the text itself.
    pub texts: Vec<String>,
    /// Why one of them leads nowhere that can be told.
    pub fault: Option<&'static str>,
}

/// Where a text is read: what its variables stand for.
#[derive(Debug, Clone, Copy)]
pub struct Ground<'a> {
    /// The working directory.
    pub cwd: &'a Path,
    /// The user's home.
    pub home: Option<&'a Path>,
}

type Transform = for<'t> fn(&'t str, &Ground<'_>) -> Cow<'t, str>;

/// What consumers do to a text before they ask the kernel. Each may follow on each.
const TRANSFORMS: &[Transform] = &[
    |text, _| text.trim_matches(is_blank).into(),
    |text, _| unquote(text).into(),
    |text, _| text.replace(is_quote, "").into(),
    // What careless programs do against climbing: `....//` becomes `../`.
    |text, _| {
        if text.contains("...") {
            text.replace("../", "").into()
        } else {
            text.into()
        }
    },
    |text, _| percent_decode(text),
    |text, _| file_uri(text),
    |text, _| text.replace('\\', "/").into(),
    |text, _| text.replace('\\', "").into(),
    |text, _| unescape(text).map_or(text.into(), Cow::Owned),
    |text, _| unescape(&text.replace("%u", "\\u")).map_or(text.into(), Cow::Owned),
    |text, ground| expand(text, |name| value(name, ground)),
    |text, _| expand(text, |_| Some(String::new())),
    |text, _| by_component(text, |name| name.trim_end_matches(is_blank)),
    |text, _| by_component(text, |name| name.trim_end_matches([' ', '.'])),
    |text, _| by_component(text, without_stream),
    |text, _| long_names(text),
    |text, _| text.nfc().collect::<String>().into(),
    |text, _| text.nfd().collect::<String>().into(),
    |text, _| look_alikes(text).into(),
    |text, _| text.replace(is_invisible, "").into(),
];

impl Readings {
    /// The readings of a text. For most there are none, and finding that out costs a look at it.
    #[must_use]
    pub fn of(given: &str, ground: &Ground<'_>) -> Self {
        let mut readings = Self::default();
        if is_plain(given) {
            return readings;
        }
        let mut all = vec![given.to_owned()];
        let mut next = 0;
        while let Some(text) = all.get(next).cloned() {
            next += 1;
            readings.fault = readings.fault.or_else(|| fault(&text));
            let mut add = |read: Cow<'_, str>| {
                if *read != *text && !all.iter().any(|known| *known == *read) {
                    all.push(read.into_owned());
                }
            };
            for transform in TRANSFORMS {
                add(transform(&text, ground));
            }
            if text.contains('{') && text.contains(',') {
                match alternatives(&text) {
                    Ok(texts) => texts.into_iter().for_each(|text| add(text.into())),
                    Err(_) => readings.fault = Some("it has too many alternatives"),
                }
            }
            if all.len() > MOST {
                readings.fault = Some("it can be read in too many ways");
                break;
            }
        }
        all.remove(0);
        readings.texts = all;
        readings
    }
}

/// Whether a text is `file:` and something behind it.
#[must_use]
pub fn is_file_uri(text: &str) -> bool {
    text.get(..5)
        .is_some_and(|scheme| scheme.eq_ignore_ascii_case("file:"))
}

/// Whether a text starts as an absolute path of Windows does.
#[must_use]
pub fn is_windows_path(text: &str) -> bool {
    drive(text).is_some_and(|rest| rest.is_empty() || rest.starts_with(['\\', '/']))
        || text.starts_with("\\\\")
}

/// What stands behind a drive's letter.
fn drive(text: &str) -> Option<&str> {
    let (letter, rest) = text.split_once(':')?;
    let is_letter = letter.len() == 1 && letter.starts_with(|c: char| c.is_ascii_alphabetic());
    is_letter.then_some(rest)
}

/// `C:boot.ini` is where the drive stands; `a:b` and `Q: why.md` are names.
fn is_drive_relative(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_uppercase())
        && drive(text).is_some_and(|rest| !rest.starts_with(' '))
}

/// Whether a text starts with a variable by the usual spelling, as `$HOME/x` and `%APPDATA%\x` do.
#[must_use]
pub fn starts_with_variable(text: &str) -> bool {
    let upper = |name: &str| {
        name.len() > 2
            && name.starts_with(|c: char| c.is_ascii_uppercase() || c == '_')
            && name
                .chars()
                .all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
    };
    variable(text).is_some_and(|(name, rest)| {
        let powershell = text
            .get(..5)
            .is_some_and(|s| s.eq_ignore_ascii_case("$env:"));
        powershell || (upper(name) && (rest.is_empty() || rest.starts_with(['/', '\\'])))
    })
}

/// Nothing in it that any consumer reads in another way than the kernel.
fn is_plain(text: &str) -> bool {
    let plain = |byte: u8| {
        byte.is_ascii_alphanumeric()
            || matches!(byte, b'/' | b'.' | b'_' | b'-' | b'+' | b'@' | b'=' | b',')
    };
    text.bytes().all(plain)
        && text
            .split('/')
            .all(|name| !name.ends_with('.') || matches!(name, "." | ".."))
}

fn fault(text: &str) -> Option<&'static str> {
    let inner = text.trim_matches(is_blank);
    let scheme = inner.split_once("://").map(|(scheme, _)| scheme);
    let is_scheme = |scheme: &str| {
        scheme.len() > 1
            && scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    };
    let opaque = |scheme: &str| {
        inner
            .get(..scheme.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    };
    if inner.contains(char::is_control) {
        Some("it holds a control character")
    } else if scheme.is_some_and(|scheme| is_scheme(scheme) && !scheme.eq_ignore_ascii_case("file"))
        || ["data:", "jar:", "blob:", "view-source:"]
            .into_iter()
            .any(opaque)
    {
        Some("it is an address, not a path")
    } else if is_file_uri(inner) && file_uri(inner) == inner {
        Some("it is an address of another machine")
    } else if is_windows_path(inner) || is_drive_relative(inner) {
        Some("it leads to a drive or a share of Windows")
    } else if inner.contains("$(") || inner.matches('`').count() > 1 {
        Some("it runs a command where it is expanded")
    } else if starts_with_variable(inner)
        && variable(inner).is_some_and(|(name, _)| !KNOWN.contains(&name))
    {
        Some("nobody knows what its variable stands for")
    } else if braces(inner).any(|name| {
        !name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c))
    }) {
        Some("it is expanded in a way that nobody foresees")
    } else {
        None
    }
}

fn is_quote(c: char) -> bool {
    matches!(c, '"' | '\'' | '`')
}

fn is_blank(c: char) -> bool {
    c.is_whitespace() || c.is_control() || is_invisible(c)
}

/// Characters that some file systems and consumers pass over.
fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}'
    )
}

fn unquote(text: &str) -> &str {
    let text = text
        .strip_prefix('$')
        .filter(|rest| rest.starts_with(is_quote))
        .unwrap_or(text);
    [
        ('"', '"'),
        ('\'', '\''),
        ('`', '`'),
        ('<', '>'),
        ('\u{201c}', '\u{201d}'),
        ('\u{2018}', '\u{2019}'),
    ]
    .into_iter()
    .find_map(|(open, close)| text.strip_prefix(open)?.strip_suffix(close))
    .unwrap_or(text)
}

fn percent_decode(text: &str) -> Cow<'_, str> {
    if !text.contains('%') {
        return text.into();
    }
    // Overlong forms of `.`, `/` and `\`, which careless decoders take.
    let mut tidy = text.to_ascii_lowercase();
    if !["%c0", "%c1", "%e0%80"]
        .iter()
        .any(|bytes| tidy.contains(bytes))
    {
        return percent_decode_str(text).decode_utf8_lossy();
    }
    for (long, short) in [
        ("%c0%ae", "."),
        ("%c0%af", "/"),
        ("%c1%9c", "\\"),
        ("%e0%80%ae", "."),
        ("%e0%80%af", "/"),
    ] {
        tidy = tidy.replace(long, short);
    }
    percent_decode_str(&tidy)
        .decode_utf8_lossy()
        .into_owned()
        .into()
}

/// The path of a `file:` address of this machine.
fn file_uri(text: &str) -> Cow<'_, str> {
    if !is_file_uri(text) {
        return text.into();
    }
    match url::Url::parse(text).map(|url| url.to_file_path()) {
        Ok(Ok(path)) => path.to_string_lossy().into_owned().into(),
        _ => text.into(),
    }
}

/// The C escapes `\xHH`, `\uHHHH` and `\NNN`, where there are any.
fn unescape(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut rest = text;
    let mut found = false;
    while let Some((before, after)) = rest.split_once('\\') {
        out.push_str(before);
        let (skip, length, radix) = match after.bytes().next() {
            Some(b'x') => (1, 2, 16),
            Some(b'u') => (1, 4, 16),
            _ => (0, 3, 8),
        };
        let code = after
            .get(skip..skip + length)
            .and_then(|digits| u32::from_str_radix(digits, radix).ok())
            .and_then(char::from_u32);
        if let (Some(c), Some(behind)) = (code, after.get(skip + length..)) {
            out.push(c);
            rest = behind;
            found = true;
        } else {
            out.push('\\');
            rest = after;
        }
    }
    out.push_str(rest);
    found.then_some(out)
}

/// The variables whose values are known.
const KNOWN: [&str; 3] = ["HOME", "USERPROFILE", "PWD"];

fn value(name: &str, ground: &Ground<'_>) -> Option<String> {
    let dir = match name {
        "HOME" | "USERPROFILE" => ground.home?,
        "PWD" => ground.cwd,
        _ => return None,
    };
    Some(dir.to_string_lossy().into_owned())
}

/// The text with every variable replaced that has a value.
fn expand(text: &str, value: impl Fn(&str) -> Option<String>) -> Cow<'_, str> {
    if !text.contains(['$', '%']) {
        return text.into();
    }
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['$', '%']) {
        let (before, here) = rest.split_at(at);
        out.push_str(before);
        if let Some((name, behind)) = variable(here)
            && let Some(value) = value(name)
        {
            out.push_str(&value);
            rest = behind;
        } else {
            let mut characters = here.chars();
            out.extend(characters.next());
            rest = characters.as_str();
        }
    }
    out.push_str(rest);
    out.into()
}

/// The variable that a text starts with, and what stands behind it.
fn variable(text: &str) -> Option<(&str, &str)> {
    let is_name = |name: &str| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    if let Some(rest) = text.strip_prefix('%') {
        let (name, behind) = rest.split_once('%')?;
        // Two characters are an encoded byte.
        return (is_name(name) && name.len() > 2).then_some((name, behind));
    }
    let rest = text.strip_prefix('$')?;
    if let Some(braced) = rest.strip_prefix('{') {
        let (name, behind) = braced.split_once('}')?;
        return is_name(name).then_some((name, behind));
    }
    let rest = match rest.get(..4) {
        Some(prefix) if prefix.eq_ignore_ascii_case("env:") => rest.get(4..)?,
        _ => rest,
    };
    let end = rest
        .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .unwrap_or(rest.len());
    let (name, behind) = rest.split_at(end);
    is_name(name).then_some((name, behind))
}

/// What stands in each `${…}`.
fn braces(text: &str) -> impl Iterator<Item = &str> {
    text.split("${")
        .skip(1)
        .map(|rest| rest.split_once('}').map_or(rest, |(name, _)| name))
}

fn by_component(text: &str, change: impl Fn(&str) -> &str) -> Cow<'_, str> {
    let names: Vec<&str> = text
        .split('/')
        .map(|name| match change(name) {
            // `.` and `..` and names of dots alone stay what they are.
            "" => name,
            _ if name == ".." => name,
            changed => changed,
        })
        .collect();
    names.join("/").into()
}

/// The file of `file:stream`.
fn without_stream(name: &str) -> &str {
    name.split_once(':').map_or(name, |(file, _)| file)
}

/// The dotted names that Windows keeps under short ones: `GIT~1` is `.git`.
fn long_names(text: &str) -> Cow<'_, str> {
    if !text.contains('~') {
        return text.into();
    }
    let names: Vec<String> = text
        .split('/')
        .map(|name| match name.split_once('~') {
            Some((stem, number))
                if !stem.is_empty() && number.starts_with(|c: char| c.is_ascii_digit()) =>
            {
                let tail = number.trim_start_matches(|c: char| c.is_ascii_digit());
                format!(
                    ".{}{}",
                    stem.to_ascii_lowercase(),
                    tail.to_ascii_lowercase()
                )
            }
            _ => name.to_owned(),
        })
        .collect();
    names.join("/").into()
}

/// Full-width and other forms as what they stand for, and what looks like a slash as one.
fn look_alikes(text: &str) -> String {
    text.nfkc()
        .map(|c| match c {
            '\u{2044}' | '\u{2215}' | '\u{29f8}' | '\u{29f6}' | '\u{2571}' | '\u{1735}' => '/',
            '\u{2216}' | '\u{29f5}' | '\u{29f9}' | '\u{2572}' => '\\',
            '\u{2024}' | '\u{3002}' | '\u{fe52}' => '.',
            c => c,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(given: &str) -> Readings {
        let ground = Ground {
            cwd: Path::new("/w"),
            home: Some(Path::new("/home/dev")),
        };
        Readings::of(given, &ground)
    }

    #[test]
    fn a_plain_path_is_read_in_one_way() {
        for given in [
            "src/main.rs",
            "/w/../a",
            "@scope+pkg/index.d.ts",
            "..foo/b..r",
            ".",
        ] {
            assert_eq!(read(given), Readings::default(), "{given}");
        }
    }

    #[test]
    fn what_a_consumer_may_do_is_among_the_readings() {
        for (given, reading) in [
            (" /etc/passwd\n", "/etc/passwd"),
            ("\"/etc/passwd\"", "/etc/passwd"),
            ("'\"/etc/passwd\"'", "/etc/passwd"),
            ("%2fetc%2fpasswd", "/etc/passwd"),
            ("%252fetc", "/etc"),
            ("..%c0%afout", "../out"),
            ("file:///etc/passwd", "/etc/passwd"),
            ("FILE://localhost/etc/passwd", "/etc/passwd"),
            ("file:/etc/%70asswd", "/etc/passwd"),
            ("..\\out", "../out"),
            ("\\/etc", "/etc"),
            ("\\x2e\\u002e\\057out", "../out"),
            ("$HOME/.ssh", "/home/dev/.ssh"),
            ("${HOME}/.ssh", "/home/dev/.ssh"),
            ("$PWD/a", "/w/a"),
            ("$env:USERPROFILE/.ssh", "/home/dev/.ssh"),
            ("%USERPROFILE%\\.ssh", "/home/dev/.ssh"),
            (".$x./out", "../out"),
            ("\u{ff0e}\u{ff0e}/out", "../out"),
            ("..\u{2215}out", "../out"),
            ("..\u{ff3c}out", "../out"),
            (".\u{200b}./out", "../out"),
            ("re\u{301}sume\u{301}", "résumé"),
            ("résumé", "re\u{301}sume\u{301}"),
            (".env.", ".env"),
            (".env ", ".env"),
            (".. /out", "../out"),
            (".git::$INDEX_ALLOCATION/config", ".git/config"),
            ("GIT~1/config", ".git/config"),
            ("%20$HOME%2f.ssh", "/home/dev/.ssh"),
            ("\"$HOME\"/.ssh", "/home/dev/.ssh"),
            ("$'/etc'", "/etc"),
            ("..''/out", "../out"),
            ("....//out", "../out"),
            ("{src,../out}/x", "../out/x"),
            ("%u002e%u002e/out", "../out"),
        ] {
            let readings = read(given);
            assert!(
                readings.texts.iter().any(|text| text == reading),
                "{given}: {readings:?}"
            );
        }
    }

    #[test]
    fn what_leads_to_another_world_is_a_fault() {
        for given in [
            "C:\\Windows",
            "C:/Windows",
            "C:boot.ini",
            "d:",
            "\\\\server\\share",
            "\\\\?\\C:\\x",
            "\"C:\\x\"",
            "https://a.example/x",
            "vscode-file://vscode-app/etc",
            "data:text/plain,x",
            "file://server/share",
            "$(echo /etc)",
            "`echo /etc`/x",
            "$OLDPWD/x",
            "$OLDPWD",
            "${TMPDIR}/x",
            "%APPDATA%\\x",
            "$env:temp\\x",
            "a/${x:-../..}/b",
            "a\nb",
            "a\tb",
        ] {
            assert!(read(given).fault.is_some(), "{given}");
        }
    }

    #[test]
    fn ordinary_names_are_no_fault() {
        for given in [
            "100%.md",
            "100%25done.txt",
            "a b.txt",
            "src/[id].tsx",
            "file~",
            "file~1",
            "résumé.md",
            "C.txt",
            "a:b",
            "Q: why.md",
            "ab:c/d",
            "x:y.txt",
            "src/routes/$userId.tsx",
            "Outer$Inner.class",
            "${slug}.md",
            "a/{{cookiecutter.name}}/b",
            "it's.md",
            "\"a\".md",
            "a\\ b.txt",
            "src\\main.rs",
            "🚀.md",
            "👩\u{200d}💻.md",
            "日本語.md",
            "½.md",
            "c#.md",
            "a&b.txt",
            "(x)/page.tsx",
            "%C3%A9t%C3%A9.md",
            "caf%e9.html",
            "cost$5.md",
            "a`b.md",
            "12:30.log",
            "~/x",
            "foo/...",
            "@types/*.d.ts",
            "a\u{a0}b",
            "README.md\n",
        ] {
            let readings = read(given);
            assert_eq!(readings.fault, None, "{given}: {readings:?}");
            assert!(readings.texts.len() < 16, "{given}: {readings:?}");
        }
    }
}
