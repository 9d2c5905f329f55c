//! How deep a policy's expressions go, told from the text alone.
//!
//! Cedar's parser and its syntax tree recurse without a bound, so a workspace could end this
//! process with a few kilobytes of parentheses. What goes too deep never reaches them.

/// The deepest expression. It fits the known stack many times over, also in a debug build.
pub(super) const LIMIT: usize = 100;

/// The byte where the text goes deeper than [`LIMIT`], if it does.
pub(super) fn too_deep(text: &str) -> Option<usize> {
    let mut levels = vec![Level::default()];
    let mut rest = text.char_indices().peekable();
    while let Some((at, c)) = rest.next() {
        let next = rest.peek().map(|(_, next)| *next);
        match c {
            '/' if next == Some('/') => while rest.next().is_some_and(|(_, c)| c != '\n') {},
            '"' => skip_string(&mut rest),
            '(' | '[' | '{' => levels.push(Level::default()),
            ')' | ']' | '}' => close(&mut levels),
            ';' => {
                levels.clear();
                levels.push(Level::default());
            }
            ',' => top(&mut levels).end_segment(),
            '&' | '|' if next == Some(c) => {
                rest.next();
                top(&mut levels).link();
            }
            '+' | '-' | '*' => top(&mut levels).link(),
            '!' if next != Some('=') => top(&mut levels).link(),
            '.' => top(&mut levels).dots += 1,
            '=' | '<' | '>' => top(&mut levels).end_dots(),
            c if c.is_alphabetic() || c == '_' => {
                let mut word = String::from(c);
                while let Some((_, c)) = rest.next_if(|(_, c)| c.is_alphanumeric() || *c == '_') {
                    word.push(c);
                }
                if word == "if" {
                    top(&mut levels).link();
                }
            }
            _ => {}
        }
        if levels.len() > LIMIT || top(&mut levels).depth() > LIMIT {
            return Some(at);
        }
    }
    None
}

/// What stands between two brackets.
#[derive(Default)]
struct Level {
    /// Operators that make the tree one deeper each.
    links: usize,
    /// Attribute accesses and method calls on one operand.
    dots: usize,
    /// The depth of what is inside: the deepest operand so far.
    inner: usize,
    /// The depth of the deepest element before the last comma.
    before: usize,
}

impl Level {
    fn depth(&self) -> usize {
        self.before.max(self.links + self.dots + self.inner + 1)
    }

    fn link(&mut self) {
        self.end_dots();
        self.links += 1;
    }

    fn end_dots(&mut self) {
        self.inner += self.dots;
        self.dots = 0;
    }

    fn end_segment(&mut self) {
        *self = Self {
            before: self.depth(),
            ..Self::default()
        };
    }
}

fn top(levels: &mut Vec<Level>) -> &mut Level {
    if levels.is_empty() {
        levels.push(Level::default());
    }
    let last = levels.len() - 1;
    #[expect(clippy::indexing_slicing, reason = "filled just above")]
    &mut levels[last]
}

fn close(levels: &mut Vec<Level>) {
    let depth = levels.pop().unwrap_or_default().depth();
    let outer = top(levels);
    outer.inner = outer.inner.max(depth);
}

fn skip_string(rest: &mut impl Iterator<Item = (usize, char)>) {
    while let Some((_, c)) = rest.next() {
        match c {
            '\\' => {
                rest.next();
            }
            '"' => return,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(body: &str) -> String {
        format!("permit(principal, action, resource) when {{ {body} }};")
    }

    #[test]
    fn what_people_write_is_not_too_deep() {
        let list = format!("[{}].contains(context.tool)", "\"x\", ".repeat(5000));
        for body in [
            "true",
            &list,
            &"resource.labels.contains(\"a\") || ".repeat(20),
            "\"((((((((((\" == context.tool // ((((((((",
        ] {
            assert_eq!(too_deep(&policy(body)), None, "{body}");
        }
        assert_eq!(too_deep(&policy("true").repeat(500)), None);
    }

    #[test]
    fn every_way_down_is_counted() {
        for (start, end) in [
            ("(", ")"),
            ("[", "]"),
            ("true && ", ""),
            ("context.depth == 1 || ", ""),
            ("1 + ", ""),
            ("if true then true else ", ""),
            (".a", ""),
            ("!", ""),
            ("(a && ", ")"),
            ("(", " && a)"),
        ] {
            let deep = policy(&format!("{}x{}", start.repeat(120), end.repeat(120)));
            assert!(too_deep(&deep).is_some(), "{start}");
        }
        let left = format!(
            "{}x{}",
            "(".repeat(12),
            " && a && a && a && a && a && a && a && a)".repeat(12)
        );
        assert!(too_deep(&policy(&left)).is_some());
    }
}
