//! The Merkle tree over the lines of the record (RFC 6962, section 2.1), as far as its next line needs it.
//!
//! The entry of a line is its SHA-256, the one that the next line's `prev` says: 32 bytes.

use data_encoding::BASE64;
use tlog_tiles::tlog::{EMPTY_HASH, Hash, node_hash, record_hash, stored_hash_index};

use super::lines;

/// The roots of the complete subtrees that a tree consists of, the largest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tree {
    size: u64,
    subtrees: Vec<lines::Hash>,
}

impl Tree {
    /// A tree of so many entries, from what [`Self::encode`] gave.
    #[must_use]
    pub fn decode(size: u64, text: &str) -> Option<Self> {
        let bytes = BASE64.decode(text.as_bytes()).ok()?;
        let (hashes, rest) = bytes.as_chunks::<32>();
        let complete = rest.is_empty() && hashes.len() == size.count_ones() as usize;
        complete.then(|| Self {
            size,
            subtrees: hashes.to_vec(),
        })
    }

    /// The subtrees' roots, in base64.
    #[must_use]
    pub fn encode(&self) -> String {
        BASE64.encode(self.subtrees.as_flattened())
    }

    /// How many entries it has.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Adds the next line, by its SHA-256.
    pub fn push(&mut self, line: &lines::Hash) {
        self.push_with(line, &mut |_, _| ());
    }

    /// Adds the next line, and tells each node that is complete with it: its number, by which
    /// `tlog_tiles` knows it, and its hash.
    pub(super) fn push_with(&mut self, line: &lines::Hash, node: &mut dyn FnMut(u64, Hash)) {
        let mut hash = leaf(line);
        node(stored_hash_index(0, self.size), hash);
        // Each complete subtree of the same height becomes the left half of a larger one.
        for level in 1..=self.size.trailing_ones() {
            if let Some(left) = self.subtrees.pop() {
                hash = node_hash(Hash(left), hash);
                let height = u8::try_from(level).unwrap_or(u8::MAX);
                node(stored_hash_index(height, self.size >> level), hash);
            }
        }
        self.subtrees.push(hash.0);
        self.size += 1;
    }

    /// The roots of the subtrees that it consists of, with their numbers.
    pub(super) fn nodes(&self) -> impl Iterator<Item = (u64, Hash)> {
        let heights = (0..64_u8)
            .rev()
            .filter(|height| self.size >> height & 1 == 1);
        heights.zip(&self.subtrees).map(|(height, hash)| {
            // What is complete at that height stands before the part that is not.
            let number = (self.size >> height) - 1;
            (stored_hash_index(height, number), Hash(*hash))
        })
    }

    /// The root.
    #[must_use]
    pub fn root(&self) -> Hash {
        let mut subtrees = self.subtrees.iter().rev().copied().map(Hash);
        let Some(last) = subtrees.next() else {
            return EMPTY_HASH;
        };
        subtrees.fold(last, |right, left| node_hash(left, right))
    }
}

/// The hash of a line's entry.
#[must_use]
pub fn leaf(line: &lines::Hash) -> Hash {
    record_hash(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tlog_tiles::tlog::{Error, HashReader, stored_hashes, tree_hash};

    struct Stored(Vec<Hash>);

    impl HashReader for Stored {
        fn read_hashes(&self, indexes: &[u64]) -> Result<Vec<Hash>, Error> {
            Ok(indexes
                .iter()
                .map(|index| self.0[*index as usize])
                .collect())
        }
    }

    #[test]
    fn the_root_is_that_of_rfc_6962() {
        let mut tree = Tree::default();
        let mut stored = Stored(Vec::new());
        assert_eq!(tree.root(), tree_hash(0, &stored).unwrap());
        for number in 0..300_u64 {
            let line = [number as u8; 32];
            let new = stored_hashes(number, &line, &stored).unwrap();
            stored.0.extend(new);
            tree.push_with(&line, &mut |index, hash| {
                assert_eq!(stored.0[index as usize], hash);
            });
            for (index, hash) in tree.nodes() {
                assert_eq!(stored.0[index as usize], hash);
            }
            assert_eq!(tree.size(), number + 1);
            assert_eq!(tree.root(), tree_hash(number + 1, &stored).unwrap());
            assert_eq!(
                Tree::decode(tree.size(), &tree.encode()),
                Some(tree.clone())
            );
        }
        assert_eq!(Tree::decode(3, &tree.encode()), None);
        assert_eq!(Tree::decode(1, "AAAA"), None);
        assert_eq!(Tree::decode(1, "?"), None);
    }
}
