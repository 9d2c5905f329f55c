//! What stands behind this program: HTTP services whose routes are tools, and other MCP servers
//! (`upstreams.toml`, R-003-09…14, R-003-65).

use std::fmt;

use serde::{Deserialize, Serialize};

/// The upstreams of `upstreams.toml`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Upstreams {
    /// HTTP services.
    pub services: Vec<Service>,
    /// MCP servers.
    pub servers: Vec<Server>,
}

/// An HTTP service whose routes are tools.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Service {
    /// The name: the server of its tools in policies and in the record.
    pub name: String,
    /// The address that routes stand behind, without a slash at its end.
    pub url: String,
    /// How it is told who calls.
    pub auth: Option<Auth>,
    /// How long a call may take, in seconds.
    pub timeout_seconds: u32,
    /// Its tools.
    pub tools: Vec<ServiceTool>,
    /// Its resources.
    pub resources: Vec<ServiceResource>,
}

/// How a service is told who calls.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Auth {
    /// The header.
    pub header: String,
    /// What stands in front of the secret, as `Bearer`; may be empty.
    pub scheme: String,
    /// The variables of the environment that hold the secret; the first that is set counts.
    pub variables: Vec<String>,
}

/// A route of a service, as a tool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceTool {
    /// The name that clients call it by.
    pub name: String,
    /// What models are told of it.
    pub description: String,
    /// `GET`, `POST`, `PUT`, `PATCH` or `DELETE`.
    pub method: String,
    /// The path behind the service's address, with `{parameter}` where an argument stands.
    pub route: Template,
    /// `read_only`, `draft_only` or `governance`.
    pub tier: String,
    /// A mode of the autonomy ladder, or empty.
    pub mode: String,
    /// The argument that says whose data it is about, or empty.
    pub entity: String,
    /// The JSON Schema of its arguments, as JSON.
    pub input: String,
}

/// A route of a service, or a file, as a resource.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceResource {
    /// Its address, with `{parameter}` where it is a template.
    pub uri: Template,
    /// Its name.
    pub name: String,
    /// What clients are told of it.
    pub description: String,
    /// The media type.
    pub media_type: String,
    /// Where it comes from.
    pub from: Origin,
}

/// Where a resource comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Origin {
    /// A route of the service, read with `GET`.
    Route(Template),
    /// A file, by its absolute path.
    File(String),
}

impl Default for Origin {
    fn default() -> Self {
        Self::Route(Template::default())
    }
}

/// An MCP server behind this program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Server {
    /// The name: the server of its tools in policies and in the record.
    pub name: String,
    /// `sandboxed`, `trusted_read` or `trusted_write`.
    pub trust: String,
    /// What is said of single tools.
    pub tools: Vec<ServerTool>,
}

/// What is said of a tool of an MCP server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerTool {
    /// The tool's name, as its server writes it.
    pub name: String,
    /// `read_only`, `approval_required` or `deny`, or empty: a person approves each call.
    pub access: String,
    /// A mode of the autonomy ladder, or empty.
    pub mode: String,
}

/// A path or an address with places for parameters: `/deals/{deal_id}/timeline`.
///
/// A parameter is a whole part between slashes, so that what is filled in can leave neither its part
/// nor the path.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Template(Vec<Part>);

/// What stands between two slashes of a template.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Part {
    /// This text.
    Text(String),
    /// The value of that parameter.
    Parameter(String),
}

impl Template {
    /// Reads what stands between the slashes.
    ///
    /// # Errors
    /// In words, if a part is empty (but for the first ones of an address), leads elsewhere (`.`,
    /// `..`), or holds what no path may hold, and if a parameter is there twice.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (head, path) = match text.split_once("://") {
            Some((scheme, path)) => (Some(format!("{scheme}:")), path),
            None => (None, text.strip_prefix('/').ok_or("it begins with `/`")?),
        };
        let mut parts: Vec<Part> = match head {
            Some(scheme) => vec![Part::Text(scheme), Part::Text(String::new())],
            None => vec![Part::Text(String::new())],
        };
        if path.is_empty() && parts.len() == 1 {
            parts.push(Part::Text(String::new()));
            return Ok(Self(parts));
        }
        for part in path.split('/') {
            let part = Part::parse(part)?;
            if parts.contains(&part) && matches!(part, Part::Parameter(_)) {
                return Err(format!("`{part}` is there twice"));
            }
            parts.push(part);
        }
        Ok(Self(parts))
    }

    /// The names of its parameters, in their order.
    pub fn parameters(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|part| match part {
            Part::Parameter(name) => Some(name.as_str()),
            Part::Text(_) => None,
        })
    }

    /// What stands between its slashes.
    #[must_use]
    pub fn parts(&self) -> &[Part] {
        &self.0
    }

    /// The values of the parameters, if `text` has this form. None of them is empty.
    #[must_use]
    pub fn values<'t>(&'t self, text: &'t str) -> Option<Vec<(&'t str, &'t str)>> {
        let mut values = Vec::new();
        let mut given = text.split('/');
        for part in &self.0 {
            let given = given.next()?;
            match part {
                Part::Text(text) if text == given => {}
                Part::Parameter(name) if !given.is_empty() => values.push((name.as_str(), given)),
                _ => return None,
            }
        }
        given.next().is_none().then_some(values)
    }
}

impl Part {
    fn parse(text: &str) -> Result<Self, String> {
        if let Some(name) = text
            .strip_prefix('{')
            .and_then(|rest| rest.strip_suffix('}'))
        {
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
            return match !name.is_empty() && name.chars().all(plain) {
                true => Ok(Self::Parameter(name.to_owned())),
                false => Err(format!("`{text}` is no name of a parameter")),
            };
        }
        if text.contains(['{', '}']) {
            return Err(format!(
                "a parameter is all that stands between two slashes, and `{text}` is more"
            ));
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || "-._~!$&'()*+,;=:@".contains(c);
        if text.is_empty() || text == "." || text == ".." || !text.chars().all(plain) {
            return Err(format!("`{text}` is no part of a path"));
        }
        Ok(Self::Text(text.to_owned()))
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Parameter(name) => write!(f, "{{{name}}}"),
        }
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, part) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("/")?;
            }
            write!(f, "{part}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_gives_back_what_it_was_read_from() {
        for text in [
            "/",
            "/a",
            "/deals/{deal_id}/timeline",
            "ted://deals/{deal_id}",
        ] {
            assert_eq!(Template::parse(text).unwrap().to_string(), text);
        }
        let template = Template::parse("ted://deals/{deal_id}").unwrap();
        assert_eq!(template.parameters().collect::<Vec<_>>(), ["deal_id"]);
        assert_eq!(
            template.values("ted://deals/7"),
            Some(vec![("deal_id", "7")])
        );
        for other in [
            "ted://deals/",
            "ted://deals/7/x",
            "ted://deals",
            "xed://deals/7",
            "",
        ] {
            assert_eq!(template.values(other), None, "{other}");
        }
    }

    #[test]
    fn what_leads_elsewhere_is_no_template() {
        for (text, expected) in [
            ("a", "it begins with `/`"),
            ("/a//b", "`` is no part of a path"),
            ("/a/", "`` is no part of a path"),
            ("/a/../b", "`..` is no part of a path"),
            ("/a?b=1", "`a?b=1` is no part of a path"),
            ("/a%2fb", "`a%2fb` is no part of a path"),
            ("/{}", "`{}` is no name of a parameter"),
            ("/{a b}", "`{a b}` is no name of a parameter"),
            (
                "/x{a}",
                "a parameter is all that stands between two slashes, and `x{a}` is more",
            ),
            ("/{a}/{a}", "`{a}` is there twice"),
        ] {
            assert_eq!(Template::parse(text), Err(expected.to_owned()), "{text}");
        }
    }
}
