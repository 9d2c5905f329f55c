//! The TOML files again, for the places of what they say.

use std::ops::Range;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::policy::SourceFile;

/// One TOML file.
pub(super) struct Toml<'a> {
    /// The file.
    pub(super) file: &'a Arc<SourceFile>,
    root: Spanned<DeTable<'a>>,
}

/// A table of a file.
#[derive(Clone, Copy)]
pub(super) struct Table<'t> {
    map: &'t DeTable<'t>,
}

impl<'a> Toml<'a> {
    /// The file, if it is one and can be read.
    pub(super) fn new(file: &'a Arc<SourceFile>) -> Option<Self> {
        let root = file
            .name
            .ends_with(".toml")
            .then(|| DeTable::parse(&file.text))?;
        Some(Self {
            file,
            root: root.ok()?,
        })
    }

    /// The whole file.
    pub(super) fn root(&self) -> Table<'_> {
        Table {
            map: self.root.get_ref(),
        }
    }
}

impl<'t> Table<'t> {
    /// A table below this one.
    pub(super) fn table(self, name: &str) -> Option<Self> {
        let map = self.map.get(name)?.get_ref().as_table()?;
        Some(Self { map })
    }

    /// The tables of `[[name]]`, with the places of their headers.
    pub(super) fn tables(self, name: &str) -> Vec<(Self, Range<usize>)> {
        self.array(name)
            .filter_map(|value| {
                let map = value.get_ref().as_table()?;
                Some((Self { map }, value.span()))
            })
            .collect()
    }

    /// A text and its place.
    pub(super) fn text(self, name: &str) -> Option<(&'t str, Range<usize>)> {
        let value = self.map.get(name)?;
        Some((value.get_ref().as_str()?, value.span()))
    }

    /// The texts of an array, with their places.
    pub(super) fn texts(self, name: &str) -> Vec<(&'t str, Range<usize>)> {
        self.array(name)
            .filter_map(|value| Some((value.get_ref().as_str()?, value.span())))
            .collect()
    }

    /// The place of whatever a key has for its value.
    pub(super) fn value(self, name: &str) -> Option<Range<usize>> {
        Some(self.map.get(name)?.span())
    }

    /// The value of a switch.
    pub(super) fn flag(self, name: &str) -> Option<bool> {
        self.map.get(name)?.get_ref().as_bool()
    }

    fn array(self, name: &str) -> impl Iterator<Item = &'t Spanned<DeValue<'t>>> {
        self.map
            .get(name)
            .and_then(|value| value.get_ref().as_array())
            .into_iter()
            .flat_map(|all| all.iter())
    }
}
