//! For GitHub: workflow commands, which it shows beside the lines of a change.

use std::fmt::Write;
use std::path::Path;

use super::Report;
use crate::policy::Problem;
use crate::policy::diagnostic::render::{command_data, command_property};
use crate::workbench::suite::coverage::Coverage;

/// A command for each thing that came otherwise than it was expected. Files are named from `here`,
/// the folder of the checkout, where they are in it.
#[must_use]
pub fn tests(report: &Report, here: Option<&Path>) -> String {
    let mut out = String::new();
    for tried in report.failed() {
        for problem in &tried.problems {
            out.push_str(&problem_command(problem, &tried.name, here));
        }
    }
    out
}

/// A command for each problem.
#[must_use]
pub fn problems(problems: &[Problem], here: Option<&Path>) -> String {
    let command = |problem: &Problem| problem_command(problem, problem.code.name(), here);
    problems.iter().map(command).collect()
}

/// A warning for each part that no test came to, or an error if that is too little.
#[must_use]
pub fn coverage(coverage: &Coverage, enough: bool, here: Option<&Path>) -> String {
    let level = if enough { "warning" } else { "error" };
    let mut out = String::new();
    for part in coverage.uncovered() {
        let _ = writeln!(
            out,
            "::{level} file={},line={},title={}::no test comes to the {} `{}`",
            command_property(&from(&part.file, here)),
            part.line,
            command_property("coverage"),
            part.kind.one(),
            command_data(&part.name),
        );
    }
    out
}

fn problem_command(problem: &Problem, title: &str, here: Option<&Path>) -> String {
    let mut out = format!("::{} ", problem.severity.name());
    if let Some(file) = &problem.file {
        let _ = write!(out, "file={},", command_property(&from(&file.path, here)));
    }
    if let Some(at) = problem.position() {
        let _ = write!(
            out,
            "line={},endLine={},col={},endColumn={},",
            at.line, at.end_line, at.column, at.end_column
        );
    }
    let _ = write!(
        out,
        "title={}::{}",
        command_property(title),
        command_data(&problem.message)
    );
    if let Some(help) = &problem.help {
        let _ = write!(out, "%0A{}", command_data(help));
    }
    out.push('\n');
    out
}

fn from(file: &str, here: Option<&Path>) -> String {
    here.and_then(|here| Path::new(file).strip_prefix(here).ok())
        .map_or_else(|| file.to_owned(), |inner| inner.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Code, SourceFile};

    #[test]
    fn what_means_something_to_github_is_written_otherwise() {
        let file = SourceFile::alone(Path::new("/repo/a,b:c.toml"), "x\ny\n".to_owned());
        let problem = Problem::error(Code::FailedTest, "100 % of it: nothing")
            .at(&file, 2..3)
            .help("one");
        assert_eq!(
            problem_command(&problem, "a: b, c", Some(Path::new("/repo"))),
            "::error file=a%2Cb%3Ac.toml,line=2,endLine=2,col=1,endColumn=2,\
             title=a%3A b%2C c::100 %25 of it: nothing%0Aone\n"
        );
    }
}
