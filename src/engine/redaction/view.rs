//! A text made from a part of another one, and the way back.

use std::ops::Range;

use super::Encoding;

/// The text, and where each part of it came from.
#[derive(Debug)]
pub(super) struct View {
    /// The text.
    pub(super) bytes: Vec<u8>,
    /// How it was made.
    pub(super) encoding: Encoding,
    pieces: Vec<Piece>,
    /// Where the original ends.
    end: usize,
}

/// A stretch of the view.
#[derive(Debug)]
struct Piece {
    /// Where it begins in the view.
    at: usize,
    /// Where its original begins.
    from: usize,
    /// Whether it is its original, byte for byte. If not, it cannot be divided.
    verbatim: bool,
}

impl View {
    /// A view without any text yet.
    pub(super) const fn new(encoding: Encoding) -> Self {
        Self {
            bytes: Vec::new(),
            encoding,
            pieces: Vec::new(),
            end: 0,
        }
    }

    /// A view that is one decoded run.
    pub(super) fn whole(encoding: Encoding, bytes: Vec<u8>, original: Range<usize>) -> Self {
        let mut view = Self::new(encoding);
        view.decoded(&bytes, original);
        view
    }

    /// Adds a part of the original as it is.
    pub(super) fn verbatim(&mut self, text: &[u8], original: Range<usize>) {
        let Some(bytes) = text.get(original.clone()).filter(|bytes| !bytes.is_empty()) else {
            return;
        };
        self.piece(original.start, true);
        self.bytes.extend_from_slice(bytes);
        self.end = original.end;
    }

    /// Adds what a part of the original stands for.
    pub(super) fn decoded(&mut self, bytes: &[u8], original: Range<usize>) {
        self.piece(original.start, false);
        self.bytes.extend_from_slice(bytes);
        self.end = original.end;
    }

    /// Where a part of the view came from: whole escapes and whole encoded runs.
    pub(super) fn original(&self, span: &Range<usize>) -> Range<usize> {
        let start = self.place(span.start).map_or(self.end, |(piece, _)| {
            if piece.verbatim {
                piece.from + (span.start - piece.at)
            } else {
                piece.from
            }
        });
        let end = match span.end.checked_sub(1).and_then(|last| self.place(last)) {
            Some((piece, _)) if piece.verbatim => piece.from + (span.end - piece.at),
            Some((_, next)) => next,
            None => start,
        };
        start..end.max(start)
    }

    /// Where its original ends.
    pub(super) const fn end(&self) -> usize {
        self.end
    }

    fn piece(&mut self, from: usize, verbatim: bool) {
        let at = self.bytes.len();
        self.pieces.push(Piece { at, from, verbatim });
    }

    /// The piece that holds a byte of the view, and where the original of the next one begins.
    fn place(&self, at: usize) -> Option<(&Piece, usize)> {
        let index = self
            .pieces
            .partition_point(|piece| piece.at <= at)
            .checked_sub(1)?;
        let next = self
            .pieces
            .get(index + 1)
            .map_or(self.end, |next| next.from);
        self.pieces.get(index).map(|piece| (piece, next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_back_takes_whole_escapes() {
        let text = br#"ab\u0041cd\n"#;
        let mut view = View::new(Encoding::Escaped);
        view.verbatim(text, 0..2);
        view.decoded(b"A", 2..8);
        view.verbatim(text, 8..10);
        view.decoded(b"\n", 10..12);
        assert_eq!(view.bytes, b"abAcd\n");
        assert_eq!(view.original(&(1..2)), 1..2);
        assert_eq!(view.original(&(2..3)), 2..8);
        assert_eq!(view.original(&(1..4)), 1..9);
        assert_eq!(view.original(&(0..6)), 0..12);
        assert_eq!(view.original(&(5..6)), 10..12);
    }

    #[test]
    fn a_run_cannot_be_divided() {
        let view = View::whole(Encoding::Base64, b"abc".to_vec(), 7..11);
        assert_eq!(view.original(&(1..2)), 7..11);
    }
}
