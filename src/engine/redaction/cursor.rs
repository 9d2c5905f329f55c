//! A place in a text that moves forth, and knows when it met the end.

/// The place.
#[derive(Debug)]
pub(super) struct Cursor<'t> {
    /// The text.
    pub(super) text: &'t [u8],
    /// The next byte.
    pub(super) at: usize,
    /// Whether the end of the text was met: more text could have changed what followed.
    pub(super) open: bool,
}

impl<'t> Cursor<'t> {
    /// A place in the text.
    pub(super) const fn new(text: &'t [u8], at: usize) -> Self {
        Self {
            text,
            at,
            open: false,
        }
    }

    /// The next byte, which stays the next one.
    pub(super) fn peek(&mut self) -> Option<u8> {
        let byte = self.text.get(self.at).copied();
        self.open |= byte.is_none();
        byte
    }

    /// Goes behind the literal if it is next.
    pub(super) fn take(&mut self, literal: &[u8]) -> bool {
        let rest = self.rest();
        if rest.starts_with(literal) {
            self.at += literal.len();
            return true;
        }
        self.open |= rest.len() < literal.len() && literal.starts_with(rest);
        false
    }

    /// The same, whatever the case of its letters.
    pub(super) fn take_ignoring_case(&mut self, literal: &[u8]) -> bool {
        let rest = self.rest();
        let most = rest.len().min(literal.len());
        let (head, wanted) = (rest.get(..most), literal.get(..most));
        let same = head
            .zip(wanted)
            .is_some_and(|(head, wanted)| head.eq_ignore_ascii_case(wanted));
        if same && most == literal.len() {
            self.at += most;
            return true;
        }
        self.open |= same;
        false
    }

    /// Goes behind at most so many bytes that fit, and says how many there were.
    pub(super) fn skip(&mut self, most: usize, fits: impl Fn(u8) -> bool) -> usize {
        let rest = self.rest();
        let count = rest
            .iter()
            .take(most)
            .take_while(|byte| fits(**byte))
            .count();
        self.open |= count == rest.len() && count < most;
        self.at += count;
        count
    }

    /// Goes behind blanks and tabs, and says how many there were.
    pub(super) fn blanks(&mut self) -> usize {
        self.skip(64, |byte| byte == b' ' || byte == b'\t')
    }

    fn rest(&self) -> &'t [u8] {
        self.text.get(self.at..).unwrap_or_default()
    }
}
