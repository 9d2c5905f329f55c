//! `--color`: whether what the verbs print has colours.

use std::ffi::OsString;

use anstream::ColorChoice;

/// When there are colours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Color {
    /// On a terminal, unless NO_COLOR is set; elsewhere where CLICOLOR_FORCE is
    #[default]
    Auto,
    /// Everywhere
    Always,
    /// Nowhere
    Never,
}

impl Color {
    /// Makes it so, for all that is printed from now on.
    pub(super) fn apply(self) {
        match self {
            Self::Auto => ColorChoice::Auto,
            Self::Always => ColorChoice::Always,
            Self::Never => ColorChoice::Never,
        }
        .write_global();
    }

    /// What a command line says that is for help or is wrong: the last `--color` before any `--`.
    pub(super) fn of(words: &[OsString]) -> Self {
        let words: Vec<&str> = words
            .iter()
            .map(|word| word.to_str().unwrap_or_default())
            .take_while(|word| *word != "--")
            .collect();
        let joined = words.iter().map(|word| word.strip_prefix("--color="));
        let apart = std::iter::once(None).chain(words.windows(2).map(|pair| match pair {
            ["--color", value] => Some(*value),
            _ => None,
        }));
        let said = joined
            .zip(apart)
            .filter_map(|(joined, apart)| joined.or(apart));
        match said.last() {
            Some("always") => Self::Always,
            Some("never") => Self::Never,
            _ => Self::Auto,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_counts_up_to_two_hyphens() {
        let of = |line: &str| Color::of(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert_eq!(of("policy --color never"), Color::Never);
        assert_eq!(of("--color always policy --color=never"), Color::Never);
        assert_eq!(of("--color=never --color always"), Color::Always);
        assert_eq!(of("sandbox -- ls --color never"), Color::Auto);
        assert_eq!(of("--color"), Color::Auto);
    }
}
