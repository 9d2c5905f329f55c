//! Rosters: the names of people, one a line, and the ways in which a text may write them.

use std::collections::BTreeSet;

use super::entities::Named;
use crate::policy::diagnostic::{Code, Problem, quote};
use crate::policy::source::Source;

/// The directory of the rosters, in the directory of the base layer.
pub const DIR: &str = "rosters";

/// What stands before a name that would be an ordinary word without it.
const TITLES: [&str; 10] = [
    "Mr.", "Mrs.", "Ms.", "Miss", "Mr", "Mrs", "Ms", "Resident", "Patient", "Pt",
];

/// A shorter surname is no name by itself.
const SHORTEST: usize = 3;

/// The names of all rosters, in every way to write them. A roster that is not there is a problem, one
/// that nobody names is none: it is not read by anybody.
pub(super) fn names(
    sources: &[Source],
    named: &Named,
    problems: &mut Vec<Problem>,
) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for (file, name) in &named.rosters {
        let path = name.get_ref().as_str();
        let path = path.strip_prefix("rosters/").unwrap_or(path);
        let path = format!("{DIR}/{path}");
        match sources.first().and_then(|base| base.file(&path)) {
            Some(roster) => all.extend(forms(&roster.text, &named.common)),
            None => {
                let problem = Problem::error(
                    Code::UnknownFile,
                    format!("there is no roster `{}`", quote(&path)),
                )
                .help(format!(
                    "a roster is a text file in `{DIR}/`, beside this one, with one name a line"
                ));
                problems.push(problem.at(file, name.span()));
            }
        }
    }
    all
}

/// The ways to write the names of a roster: `First Last` or `Last, First` on each line, `#` before
/// what is no name. A surname that is an ordinary word too is one only behind a title.
pub(super) fn forms(roster: &str, common: &[String]) -> BTreeSet<String> {
    let mut forms = BTreeSet::new();
    for line in roster.lines() {
        let line = line.trim_start_matches('\u{feff}').trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (first, last) = match line.split_once(',') {
            Some((last, first)) => (tidy(first), tidy(last)),
            None => split(&tidy(line)),
        };
        if last.is_empty() {
            continue;
        }
        let mut all = Vec::new();
        if first.is_empty() {
            all.push(last.clone());
        } else {
            all.push(format!("{first} {last}"));
            all.push(format!("{last}, {first}"));
            all.push(format!("{last},{first}"));
            // `Jane Q. Public` is written without what stands between as well.
            let given = first.split(' ').next().unwrap_or_default();
            if given != first {
                all.push(format!("{given} {last}"));
                all.push(format!("{last}, {given}"));
            }
            if let Some(initial) = given.chars().next() {
                all.push(format!("{initial}. {last}"));
            }
            let is_word = common.iter().any(|word| word.eq_ignore_ascii_case(&last));
            if is_word || last.chars().count() < SHORTEST {
                all.extend(TITLES.iter().map(|title| format!("{title} {last}")));
            } else {
                all.push(last);
            }
        }
        // What has no longer part would wake in every text.
        let part = |form: &str| {
            form.split(|c: char| !c.is_ascii_alphanumeric())
                .map(str::len)
                .max()
        };
        for form in all.into_iter().filter(|form| part(form) >= Some(SHORTEST)) {
            let upper = form.to_uppercase();
            forms.extend([form, upper]);
        }
    }
    forms
}

/// A name with one blank between its words.
fn tidy(name: &str) -> String {
    name.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The given names and the surname, to which small words and what follows them belong: `Van der Berg`.
fn split(name: &str) -> (String, String) {
    const PARTICLES: [&str; 14] = [
        "al", "bin", "da", "de", "del", "della", "den", "der", "di", "dos", "la", "le", "van",
        "von",
    ];
    let words: Vec<&str> = name.split(' ').collect();
    let particle = |word: &&str| PARTICLES.contains(&word.to_lowercase().as_str());
    let last = words.len().saturating_sub(1);
    let start = words
        .iter()
        .enumerate()
        .skip(1)
        .find(|(_, word)| particle(word))
        .map_or(last, |(at, _)| at.min(last));
    let (first, surname) = words.split_at(start);
    (first.join(" "), surname.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(roster: &str) -> BTreeSet<String> {
        forms(roster, &["Young".to_owned()])
    }

    #[test]
    fn a_name_is_written_in_many_ways() {
        let forms = all("# residents\nIda Q. Van der Berg\nO'Connor,  Mei-Ling\n\n");
        for form in [
            "Ida Q. Van der Berg",
            "Ida Van der Berg",
            "Van der Berg, Ida",
            "Van der Berg",
            "I. Van der Berg",
            "Mei-Ling O'Connor",
            "O'Connor, Mei-Ling",
            "O'Connor",
            "MEI-LING O'CONNOR",
        ] {
            assert!(forms.contains(form), "{form}: {forms:?}");
        }
        assert!(!forms.iter().any(|form| form.contains("residents")));
    }

    #[test]
    fn a_name_that_is_a_word_needs_a_title() {
        let forms = all("Ada Young");
        assert!(forms.contains("Mrs. Young"));
        assert!(forms.contains("Young, Ada"));
        assert!(!forms.contains("Young"));
        assert!(!all("Bo Li").contains("Li"));
    }
}
