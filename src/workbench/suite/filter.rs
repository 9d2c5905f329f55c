//! Which tests are meant: by a part of their names, or by a glob over them.

use std::fmt;

use globset::{GlobBuilder, GlobMatcher};

/// A part of a name, or a glob over the whole of it.
#[derive(Debug, Clone)]
pub struct Filter(Kind);

#[derive(Debug, Clone)]
enum Kind {
    Part(String),
    Glob(GlobMatcher),
}

/// Why a filter means nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadFilter(String);

impl Filter {
    /// The filter that a person wrote: a glob if it holds `*`, `?` or `[`, else a part of a name.
    /// Upper and lower case are the same.
    ///
    /// # Errors
    /// If it is no glob.
    pub fn new(text: &str) -> Result<Self, BadFilter> {
        if !text.contains(['*', '?', '[']) {
            return Ok(Self(Kind::Part(text.to_lowercase())));
        }
        let glob = GlobBuilder::new(text).case_insensitive(true).build();
        glob.map(|glob| Self(Kind::Glob(glob.compile_matcher())))
            .map_err(|error| BadFilter(error.kind().to_string()))
    }

    /// Whether it fits a name.
    #[must_use]
    pub fn fits(&self, name: &str) -> bool {
        match &self.0 {
            Kind::Part(part) => name.to_lowercase().contains(part),
            Kind::Glob(glob) => glob.is_match(name),
        }
    }
}

impl fmt::Display for BadFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadFilter {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_globs_fit_names() {
        for (filter, name, fits) in [
            ("push", "a push is asked about", true),
            ("PUSH", "a push is asked about", true),
            ("push*", "a push is asked about", false),
            ("*push*", "a push / is asked about", true),
            ("a ????", "a push", true),
            ("pull", "a push", false),
            ("", "anything", true),
        ] {
            assert_eq!(Filter::new(filter).unwrap().fits(name), fits, "{filter}");
        }
        assert!(Filter::new("[a").is_err());
    }
}
