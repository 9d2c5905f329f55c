//! The syntax tree of a command line, as tree-sitter-bash makes it.

use std::borrow::Cow;
use std::cell::RefCell;
use std::ops::ControlFlow;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::{Duration, Instant};

use tree_sitter::{Node, ParseOptions, ParseState, Parser, Tree};

/// The square of this, in bytes, is no time to speak of.
const SHORT: usize = 1_000;

/// As much stack as a process starts with.
const STACK: usize = 8 << 20;

/// A node and the text that it stands in.
#[derive(Clone, Copy)]
pub(super) struct At<'t> {
    node: Node<'t>,
    source: &'t str,
}

/// The tree of a text, with its places in bytes; `None` if that takes longer than `patience`.
pub(super) fn parse(source: &str, patience: Duration) -> Option<Tree> {
    if source.len() <= SHORT {
        return parse_here(&plain(source), patience);
    }
    // Over a long broken line a single step of the parser may take a second, and a step cannot be
    // stopped: it is left behind.
    let (done, tree) = sync_channel(1);
    let source = plain(source).into_owned();
    thread::Builder::new()
        .stack_size(STACK)
        .spawn(move || done.send(parse_here(&source, patience)))
        .ok()?;
    tree.recv_timeout(patience).ok()?
}

/// The grammar's scanner looks characters up in a table of single bytes: it gets letters instead.
fn plain(source: &str) -> Cow<'_, str> {
    if source.is_ascii() {
        return source.into();
    }
    source
        .chars()
        .flat_map(|c| {
            let filler = if c.is_ascii() { c } else { 'x' };
            std::iter::repeat_n(filler, c.len_utf8())
        })
        .collect()
}

fn parse_here(source: &str, patience: Duration) -> Option<Tree> {
    thread_local! {
        // A long-lived process reads many lines.
        static PARSER: RefCell<Option<Parser>> = const { RefCell::new(None) };
    }
    PARSER.with_borrow_mut(|parser| {
        let parser = match parser {
            Some(parser) => parser,
            None => {
                let mut new = Parser::new();
                new.set_language(&tree_sitter_bash::LANGUAGE.into()).ok()?;
                parser.insert(new)
            }
        };
        parser.reset();
        let begun = Instant::now();
        let mut hurry = |_: &ParseState| match begun.elapsed() > patience {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        };
        let options = ParseOptions::new().progress_callback(&mut hurry);
        let text = |from: usize, _| source.as_bytes().get(from..).unwrap_or_default();
        parser.parse_with_options(&mut { text }, None, Some(options))
    })
}

impl<'t> At<'t> {
    pub(super) fn root(tree: &'t Tree, source: &'t str) -> Self {
        Self {
            node: tree.root_node(),
            source,
        }
    }

    pub(super) fn kind(self) -> &'t str {
        self.node.kind()
    }

    /// Whether the grammar did not understand something here.
    pub(super) fn is_broken(self) -> bool {
        self.node.has_error()
    }

    pub(super) fn text(self) -> &'t str {
        self.source.get(self.node.byte_range()).unwrap_or_default()
    }

    pub(super) fn is_named(self) -> bool {
        self.node.is_named()
    }

    pub(super) fn start(self) -> usize {
        self.node.start_byte()
    }

    pub(super) fn end(self) -> usize {
        self.node.end_byte()
    }

    /// The text between two places of the source.
    pub(super) fn between(self, start: usize, end: usize) -> &'t str {
        self.source.get(start..end).unwrap_or_default()
    }

    /// All children, the signs between them included.
    pub(super) fn children(self) -> Vec<At<'t>> {
        let mut cursor = self.node.walk();
        self.node
            .children(&mut cursor)
            .map(|node| Self { node, ..self })
            .collect()
    }

    /// The children that carry a name of the grammar.
    pub(super) fn named(self) -> Vec<At<'t>> {
        let mut all = self.children();
        all.retain(|child| child.is_named());
        all
    }

    pub(super) fn field(self, name: &str) -> Option<At<'t>> {
        let node = self.node.child_by_field_name(name)?;
        Some(Self { node, ..self })
    }

    pub(super) fn fields(self, name: &str) -> Vec<At<'t>> {
        let mut cursor = self.node.walk();
        self.node
            .children_by_field_name(name, &mut cursor)
            .map(|node| Self { node, ..self })
            .collect()
    }

    /// Whether a child is this sign or keyword.
    pub(super) fn has(self, sign: &str) -> bool {
        self.children()
            .iter()
            .any(|child| !child.is_named() && child.kind() == sign)
    }
}
