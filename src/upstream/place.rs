//! Filling in a route: no value leaves its part of the path.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::Fault;
use crate::engine::upstream::{Part, Template};

/// What is written with a percent sign: all that RFC 3986 does not call unreserved.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// The path of a route with these values.
///
/// # Errors
/// If a value is missing, or would lead elsewhere.
pub(super) fn fill<'v>(
    route: &Template,
    value: impl Fn(&str) -> Option<&'v str>,
) -> Result<String, Fault> {
    let mut parts = Vec::new();
    for part in route.parts() {
        parts.push(match part {
            Part::Text(text) => text.clone(),
            Part::Parameter(name) => {
                let value = value(name).ok_or_else(|| Fault(format!("`{name}` is missing")))?;
                let odd = |c: char| c.is_control() || matches!(c, '/' | '\\');
                if matches!(value, "" | "." | "..") || value.contains(odd) {
                    return Err(Fault(format!(
                        "`{name}` is empty, `.` or `..`, or holds a slash or a control character: it would leave its part of the path"
                    )));
                }
                utf8_percent_encode(value, RESERVED).to_string()
            }
        });
    }
    Ok(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_stays_in_its_part_of_the_path() {
        let route = Template::parse("/deals/{deal_id}/timeline").unwrap();
        let fill = |value: &'static str| fill(&route, |_| Some(value)).ok();
        for (value, path) in [
            ("7", Some("/deals/7/timeline")),
            ("a b?c#d&e", Some("/deals/a%20b%3Fc%23d%26e/timeline")),
            ("%2e%2e", Some("/deals/%252e%252e/timeline")),
            ("ä", Some("/deals/%C3%A4/timeline")),
            ("...", Some("/deals/.../timeline")),
            ("..", None),
            (".", None),
            ("", None),
            ("a/b", None),
            ("a\\b", None),
            ("a\0", None),
            ("a\r\nHost: x", None),
        ] {
            assert_eq!(fill(value).as_deref(), path, "{value:?}");
        }
    }
}
