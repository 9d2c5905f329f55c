//! Entries of a table that stay encoded until somebody asks for one by its name.
//!
//! A hook needs the entries of one or two programs out of hundreds.

use std::fmt;
use std::sync::OnceLock;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};

/// What has names.
pub trait Named {
    /// The names.
    fn names(&self) -> &[String];
}

/// Entries that are decoded when somebody asks for one of their names.
#[derive(Serialize, Deserialize)]
pub struct Sleeping<T> {
    /// The digest of each name, and the entry that has it.
    names: Vec<(u32, u16)>,
    /// Where each entry ends among the bodies.
    ends: Vec<u32>,
    bodies: Bytes,
    #[serde(skip, default = "OnceLock::new")]
    awake: OnceLock<Vec<OnceLock<Option<Box<T>>>>>,
}

/// An entry that cannot be decoded, or one too many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unusable;

impl<T: Named + Serialize + DeserializeOwned> Sleeping<T> {
    /// A table of those entries.
    ///
    /// # Errors
    /// If there are too many.
    pub fn of(entries: &[T]) -> Result<Self, Unusable> {
        let mut table = Self::default();
        entries.iter().try_for_each(|entry| table.push(entry))?;
        Ok(table)
    }

    /// Adds an entry.
    ///
    /// # Errors
    /// If there are too many.
    pub fn push(&mut self, entry: &T) -> Result<(), Unusable> {
        let number = u16::try_from(self.ends.len()).map_err(|_| Unusable)?;
        let body = postcard::to_stdvec(entry).map_err(|_| Unusable)?;
        self.bodies.0.extend(body);
        let end = u32::try_from(self.bodies.0.len()).map_err(|_| Unusable)?;
        self.ends.push(end);
        self.names
            .extend(entry.names().iter().map(|name| (digest(name), number)));
        self.awake = OnceLock::new();
        Ok(())
    }

    /// The entries that have that name, in their order.
    pub fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = Result<&'a T, Unusable>> {
        let wanted = digest(name);
        self.names
            .iter()
            .filter(move |(known, _)| *known == wanted)
            .map(|(_, number)| self.entry(usize::from(*number)))
            // Two names may have one digest.
            .filter(move |entry| {
                entry.map_or(true, |entry| {
                    entry.names().iter().any(|known| known == name)
                })
            })
    }

    /// Every entry, in their order.
    pub fn all(&self) -> impl Iterator<Item = Result<&T, Unusable>> {
        (0..self.ends.len()).map(|number| self.entry(number))
    }

    fn entry(&self, number: usize) -> Result<&T, Unusable> {
        let awake = self
            .awake
            .get_or_init(|| self.ends.iter().map(|_| OnceLock::new()).collect());
        let decoded = awake.get(number).ok_or(Unusable)?.get_or_init(|| {
            let end = usize::try_from(*self.ends.get(number)?).ok()?;
            let start = match number.checked_sub(1) {
                Some(before) => usize::try_from(*self.ends.get(before)?).ok()?,
                None => 0,
            };
            let body = self.bodies.0.get(start..end)?;
            postcard::from_bytes(body).ok().map(Box::new)
        });
        decoded.as_deref().ok_or(Unusable)
    }
}

impl<T> Default for Sleeping<T> {
    fn default() -> Self {
        Self {
            names: Vec::new(),
            ends: Vec::new(),
            bodies: Bytes::default(),
            awake: OnceLock::new(),
        }
    }
}

impl<T> Clone for Sleeping<T> {
    fn clone(&self) -> Self {
        Self {
            names: self.names.clone(),
            ends: self.ends.clone(),
            bodies: self.bodies.clone(),
            awake: OnceLock::new(),
        }
    }
}

impl<T> PartialEq for Sleeping<T> {
    fn eq(&self, other: &Self) -> bool {
        self.bodies == other.bodies && self.ends == other.ends
    }
}

impl<T> Eq for Sleeping<T> {}

impl<T> fmt::Debug for Sleeping<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleeping")
            .field("entries", &self.ends.len())
            .finish_non_exhaustive()
    }
}

/// Four bytes of a digest that is the same on every machine.
fn digest(name: &str) -> u32 {
    let hash = blake3::hash(name.as_bytes());
    let [a, b, c, d, ..] = *hash.as_bytes();
    u32::from_le_bytes([a, b, c, d])
}

/// Bytes that are read as one run, not one by one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
struct Bytes(Vec<u8>);

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <&[u8]>::deserialize(deserializer).map(|bytes| Self(bytes.to_vec()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Entry(Vec<String>, u8);

    impl Named for Entry {
        fn names(&self) -> &[String] {
            &self.0
        }
    }

    fn entry(names: &[&str], value: u8) -> Entry {
        Entry(names.iter().map(|name| (*name).to_owned()).collect(), value)
    }

    #[test]
    fn entries_are_found_by_each_of_their_names() {
        let entries = [entry(&["a", "b"], 1), entry(&["c"], 2), entry(&["b"], 3)];
        let table = Sleeping::of(&entries).unwrap();
        let bytes = postcard::to_stdvec(&table).unwrap();
        let table: Sleeping<Entry> = postcard::from_bytes(&bytes).unwrap();
        let values =
            |name| -> Vec<u8> { table.named(name).map(|entry| entry.unwrap().1).collect() };
        assert_eq!(values("a"), [1]);
        assert_eq!(values("b"), [1, 3]);
        assert_eq!(values("x"), [0; 0]);
        assert_eq!(table.all().count(), 3);
    }

    #[test]
    fn what_cannot_be_decoded_is_told() {
        let mut table = Sleeping::default();
        table.push(&entry(&["a"], 1)).unwrap();
        table.bodies.0.truncate(1);
        assert_eq!(table.named("a").next(), Some(Err(Unusable)));
    }
}
