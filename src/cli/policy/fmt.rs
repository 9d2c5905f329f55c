//! `policy fmt`: Cedar files in one form.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use anstyle::{AnsiColor, Style};
use similar::{ChangeTag, TextDiff};

use super::show_problems;
use crate::cli::Outcome;
use crate::cli::place::Place;
use crate::exit::Exit;
use crate::facts::paths::words;
use crate::policy::compile::Readers;
use crate::policy::{self, Layer, edit};
use crate::workbench::format::format;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "The form is that of Cedar's own formatter. Comments stay, and so do empty lines between policies and\n\
    comments. Nothing is written if any file is broken, or would mean something else.\n\
    Exit codes: 0 in form · 1 `--check` found what is not · 3 a file is broken · 64 usage."
)]
pub(super) struct Args {
    /// Cedar files, and directories of them; `-` for the standard input [default: your policies]
    paths: Vec<PathBuf>,
    /// Show what would change, and change nothing
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    place: Place,
}

/// A file and its text.
struct Draft {
    path: PathBuf,
    before: String,
    after: String,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    if args.paths.iter().any(|path| path.as_os_str() == "-") {
        return standard_input(args, out);
    }
    let locations = args.place.locations(None);
    let (paths, ours) = match (
        args.paths.is_empty(),
        policy::layer::dir(&locations, Layer::User),
    ) {
        (false, _) => (args.paths.clone(), false),
        (true, Some(dir)) if dir.is_dir() => (vec![dir.to_owned()], true),
        (true, _) => return Err("there are no policies of yours: name files or a directory".into()),
    };
    let mut drafts = Vec::new();
    let mut problems = Vec::new();
    for path in files(&paths)? {
        let shown = path.display().to_string();
        let before = fs::read_to_string(&path)
            .map_err(|error| format!("cannot read `{shown}`: {}", words(&error)))?;
        match format(&shown, &before) {
            Ok(after) if after != before => drafts.push(Draft {
                path,
                before,
                after,
            }),
            Ok(_) => {}
            Err(found) => problems.extend(found),
        }
    }
    if !problems.is_empty() {
        show_problems(&problems, out)?;
        return Ok(Exit::PolicyInvalid);
    }
    if args.check {
        for draft in &drafts {
            diff(
                &draft.path.display().to_string(),
                &draft.before,
                &draft.after,
                out,
            )?;
        }
        return Ok(if drafts.is_empty() {
            Exit::Ok
        } else {
            Exit::Failed
        });
    }
    for draft in &drafts {
        if let Err(problem) = edit::rewrite(&draft.path, &draft.before, &draft.after) {
            show_problems(&[problem], out)?;
            return Ok(Exit::Failed);
        }
        writeln!(out, "formatted {}", draft.path.display())?;
    }
    if ours && !drafts.is_empty() {
        // Hooks find the old compiled form stale, and would compile in memory each time.
        let bundle = policy::load(&locations).map_err(|_| "the policies are formatted; `copilot-bridge policy check` says what else is wrong with them")?;
        policy::compile::write(&args.place.state(), &bundle, Readers::Owner)?;
    }
    Ok(Exit::Ok)
}

fn standard_input(args: &Args, out: &mut dyn Write) -> Outcome {
    if args.paths.len() > 1 {
        return Err("`-` stands alone".into());
    }
    let mut before = String::new();
    std::io::stdin()
        .read_to_string(&mut before)
        .map_err(|error| format!("cannot read the standard input: {}", words(&error)))?;
    match format("<stdin>", &before) {
        Ok(after) if args.check => {
            diff("<stdin>", &before, &after, out)?;
            Ok(if after == before {
                Exit::Ok
            } else {
                Exit::Failed
            })
        }
        Ok(after) => {
            out.write_all(after.as_bytes())?;
            Ok(Exit::Ok)
        }
        Err(problems) => {
            // The standard output is for the text.
            show_problems(&problems, &mut anstream::stderr())?;
            Ok(Exit::PolicyInvalid)
        }
    }
}

/// The files that are meant: those in a directory are its Cedar files.
fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, String> {
    let mut all = Vec::new();
    for path in paths {
        if !path.is_dir() {
            all.push(path.clone());
            continue;
        }
        let failed =
            |error: std::io::Error| format!("cannot read `{}`: {}", path.display(), words(&error));
        let mut found = Vec::new();
        for entry in fs::read_dir(path).map_err(failed)? {
            let inner = entry.map_err(failed)?.path();
            if is_cedar(&inner) {
                found.push(inner);
            }
        }
        found.sort();
        all.append(&mut found);
    }
    Ok(all)
}

/// What the reader of policies takes for a Cedar file.
fn is_cedar(path: &Path) -> bool {
    let hidden = path
        .file_name()
        .is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
    !hidden
        && path
            .extension()
            .is_some_and(|extension| extension == "cedar")
}

/// A unified diff. The stream takes the colours out where nobody can see them.
fn diff(name: &str, before: &str, after: &str, out: &mut dyn Write) -> std::io::Result<()> {
    let diff = TextDiff::from_lines(before, after);
    let groups = diff.grouped_ops(3);
    if groups.is_empty() {
        return Ok(());
    }
    writeln!(out, "--- {name}\n+++ {name} (formatted)")?;
    for group in groups {
        let header = similar::udiff::UnifiedHunkHeader::new(&group);
        writeln!(out, "{header}")?;
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let (sign, style) = match change.tag() {
                ChangeTag::Delete => ('-', Style::new().fg_color(Some(AnsiColor::Red.into()))),
                ChangeTag::Insert => ('+', Style::new().fg_color(Some(AnsiColor::Green.into()))),
                ChangeTag::Equal => (' ', Style::new()),
            };
            // A file may not speak to the terminal.
            let control = |c: char| c.is_control() && c != '\t';
            let line = change
                .value()
                .trim_end_matches('\n')
                .replace(control, "\u{fffd}");
            writeln!(out, "{style}{sign}{line}{style:#}")?;
            if change.missing_newline() {
                writeln!(out, "\\ No newline at end of file")?;
            }
        }
    }
    Ok(())
}
