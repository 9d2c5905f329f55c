//! Annotations of a GitHub workflow: lines that the code host shows beside the code.

use crate::policy::{Problem, Severity};

/// A problem as a workflow command.
#[must_use]
pub fn annotation(problem: &Problem) -> String {
    let level = match problem.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    let mut place = String::new();
    if let Some(file) = &problem.file {
        place.push_str(&format!("file={},", property(&file.path)));
    }
    if let Some(at) = problem.position() {
        place.push_str(&format!(
            "line={},endLine={},col={},",
            at.line, at.end_line, at.column
        ));
    }
    let mut text = problem.message.clone();
    if let Some(help) = &problem.help {
        text.push_str(&format!(" ({help})"));
    }
    let title = property(problem.code.name());
    format!("::{level} {place}title={title}::{}", message(&text))
}

/// A text that ends no command.
pub(in crate::workbench) fn message(text: &str) -> String {
    text.replace('%', "%25")
        .replace('\r', "%0D")
        .replace('\n', "%0A")
}

fn property(text: &str) -> String {
    message(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Code, Layer, Source};

    #[test]
    fn a_place_is_told_and_nothing_of_a_file_ends_a_command() {
        let files = [("a,b.cedar".to_owned(), "x\nyz".to_owned())];
        let source = Source::new(Layer::User, "p", files);
        let problem = Problem::warning(Code::BadValue, "100 % wrong").help("no: help");
        assert_eq!(
            annotation(&problem.at(&source.files[0], 2..4)),
            "::warning file=p/a%2Cb.cedar,line=2,endLine=2,col=1,title=bad-value::100 %25 wrong (no: help)"
        );
    }
}
