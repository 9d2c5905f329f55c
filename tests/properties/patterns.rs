//! What keeps a pattern from being compiled never changes what it matches.

use copilot_bridge::engine::pattern::{Haystack, Pattern, PatternScope};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use regex::bytes::RegexBuilder;

use super::cases;

/// A piece of an expression, and texts that it may match.
#[derive(Debug, Clone)]
enum Piece {
    Text(String),
    /// An expression for one character, and one that it matches.
    Class(&'static str, &'static str),
    /// Something without width, or that matches anything.
    Loose(&'static str),
    All(Vec<Self>),
    Either(Vec<Self>),
    Repeated(Box<Self>, &'static str, usize),
    /// A group with flags.
    Group(&'static str, Box<Self>),
}

impl Piece {
    fn source(&self) -> String {
        match self {
            Self::Text(text) => regex_syntax::escape(text),
            Self::Class(source, _) | Self::Loose(source) => (*source).to_owned(),
            Self::All(parts) => parts.iter().map(Self::source).collect(),
            Self::Either(parts) => {
                let parts: Vec<String> = parts.iter().map(Self::source).collect();
                format!("(?:{})", parts.join("|"))
            }
            Self::Repeated(inner, how, _) => format!("(?:{}){how}", inner.source()),
            Self::Group(flags, inner) => format!("({flags}{})", inner.source()),
        }
    }

    /// A text that is likely to match; `choice` picks among several.
    fn sample(&self, choice: usize) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Class(_, one) => (*one).to_owned(),
            Self::Loose(_) => String::new(),
            Self::All(parts) => parts.iter().map(|part| part.sample(choice / 2)).collect(),
            Self::Either(parts) => parts
                .get(choice % parts.len().max(1))
                .map(|part| part.sample(choice / 3))
                .unwrap_or_default(),
            Self::Repeated(inner, _, times) => inner.sample(choice / 2).repeat(*times),
            Self::Group(_, inner) => inner.sample(choice),
        }
    }
}

fn piece() -> impl Strategy<Value = Piece> {
    let words = vec![
        "rm", "-rf", "drop", "TABLE", "k", "s", "é", "ſ", "K", "sudo ", "/", "\n",
    ];
    let leaf = prop_oneof![
        5 => select(words).prop_map(|word| Piece::Text(word.to_owned())),
        1 => "[a-c ]{1,3}".prop_map(Piece::Text),
        3 => select(vec![
            (r"\s", " "), (r"\d", "7"), (r"\w", "x"), (".", "-"), ("[a-z]", "q"), ("[^|]", "z"),
            ("[kK]", "k"), (r"\S", "y"), ("[[:alpha:]]", "m"), (r"\x41", "A"), ("[rs]", "r"),
        ]).prop_map(|(source, one)| Piece::Class(source, one)),
        2 => select(vec!["^", "$", r"\b", r"\B", ".*", r"\s*", "(?-u:.)?", "", "(?m:^)", r"\A"])
            .prop_map(Piece::Loose),
    ];
    leaf.prop_recursive(4, 20, 3, |inner| {
        let repeats = select(vec![
            ("*", 0),
            ("*", 2),
            ("+", 1),
            ("+", 3),
            ("?", 0),
            ("?", 1),
            ("{2}", 2),
            ("{0,2}", 1),
            ("{1,}", 2),
            ("*?", 1),
            ("+?", 1),
            ("{0}", 0),
        ]);
        prop_oneof![
            4 => vec(inner.clone(), 0..4).prop_map(Piece::All),
            3 => vec(inner.clone(), 1..4).prop_map(Piece::Either),
            3 => (inner.clone(), repeats).prop_map(|(inner, (how, times))| {
                Piece::Repeated(Box::new(inner), how, times)
            }),
            1 => (select(vec!["", "?i:", "?s:", "?-i:", "?P<name>", "?u:", "?iu:"]), inner)
                .prop_map(|(flags, inner)| Piece::Group(flags, Box::new(inner))),
        ]
    })
}

/// Changes the case of some letters.
fn mixed(text: &str, bits: u32) -> String {
    text.chars()
        .enumerate()
        .flat_map(|(index, c)| {
            let upper = bits >> (index % 32) & 1 == 1;
            let changed: Vec<char> = if upper {
                c.to_uppercase().collect()
            } else {
                vec![c]
            };
            changed
        })
        .collect()
}

proptest! {
    #![proptest_config(cases(600))]

    #[test]
    fn the_prefilter_changes_no_result(
        piece in piece(), ignore_case in any::<bool>(), choices in vec(any::<usize>(), 1..4),
        around in ("[ a-z\n]{0,4}", "\\PC{0,4}"), bits in prop_oneof![Just(0), any::<u32>()],
        noise in "\\PC{0,12}",
    ) {
        let source = piece.source();
        let direct = RegexBuilder::new(&source).unicode(false).case_insensitive(ignore_case).build();
        let pattern = Pattern::new("x".into(), source.clone(), ignore_case, PatternScope::Values);
        let (Ok(direct), Ok(pattern)) = (direct, pattern) else {
            return Err(TestCaseError::reject("no expression"));
        };
        let mut texts = vec![noise, String::new()];
        for choice in choices {
            let sample = piece.sample(choice);
            texts.push(mixed(&sample, bits));
            texts.push(format!("{}{}{}", around.0, mixed(&sample, bits), around.1));
            texts.push(sample);
        }
        for text in texts {
            prop_assert_eq!(
                pattern.matches(&[Haystack::new(&text)]),
                Ok(direct.is_match(text.as_bytes())),
                "{} with {:?} in {:?}", source, pattern.literals, text
            );
        }
    }

    #[test]
    fn no_text_is_an_expression_that_panics(source in "\\PC{0,20}|[a-z(|)*+?{}\\[\\]\\\\.^$0-9,-]{0,16}", text in "\\PC{0,20}") {
        if let Ok(pattern) = Pattern::new("x".into(), source.clone(), true, PatternScope::Json) {
            let direct = RegexBuilder::new(&source)
                .unicode(false)
                .case_insensitive(true)
                .build()
                .unwrap();
            prop_assert_eq!(pattern.matches(&[Haystack::new(&text)]), Ok(direct.is_match(text.as_bytes())));
        }
    }
}
