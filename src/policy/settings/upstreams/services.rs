//! `[[service]]`: HTTP services whose routes are tools and resources (R-003-09…14).

use std::ops::Range;

use serde_json::{Map, Value, json};
use toml::Spanned;

use super::servers::{MODES, word};
use crate::engine::upstream::{
    Auth, Origin, Service, ServiceResource, ServiceTool, Template, Upstreams,
};
use crate::policy::diagnostic::{Code, Problem, quote, suggest};
use crate::policy::settings::table::{Key, Merge, Reader, Table, key};
use crate::wire;

const fn each(name: &'static str) -> Key {
    key(name, Merge::PerFile)
}

/// The keys of `[[service]]`.
pub const SERVICE: &[Key] = &[
    each("name"),
    each("url"),
    each("auth"),
    each("timeout_seconds"),
    each("tool"),
    each("resource"),
];

/// The keys of `[service.auth]`.
pub const AUTH: &[Key] = &[each("header"), each("scheme"), each("variables")];

/// The keys of `[[service.tool]]`.
pub const TOOL: &[Key] = &[
    each("name"),
    each("description"),
    each("method"),
    each("route"),
    each("tier"),
    each("mode"),
    each("entity"),
    each("inputs"),
    each("required"),
];

/// The keys of `[[service.resource]]`.
pub const RESOURCE: &[Key] = &[
    each("uri"),
    each("name"),
    each("description"),
    each("media_type"),
    each("route"),
    each("file"),
];

/// What a tool does (R-003-12).
pub const TIERS: [(&str, &str); 3] = [
    ("read_only", "read_only"),
    ("draft_only", "draft_only"),
    ("governance", "governance"),
];

/// How a route is called.
pub const METHODS: [(&str, &str); 5] = [
    ("GET", "GET"),
    ("POST", "POST"),
    ("PUT", "PUT"),
    ("PATCH", "PATCH"),
    ("DELETE", "DELETE"),
];

/// How long a call may take, in seconds; 30 where it is not said.
pub const TIMEOUT: std::ops::RangeInclusive<u32> = 1..=600;

/// The longest name of a tool that clients take (MCP 2025-11-25).
const NAME: usize = 128;

/// Headers that belong to the connection.
const RESERVED: [&str; 6] = [
    "connection",
    "content-length",
    "content-type",
    "host",
    "transfer-encoding",
    "upgrade",
];

/// Adds the file's services.
pub(super) fn apply(upstreams: &mut Upstreams, root: &Table<'_>, reader: &mut Reader<'_>) {
    for table in root.tables("service", reader) {
        table.check(SERVICE, reader);
        let name = name(&table, reader);
        let url = url(&table, reader);
        let auth = table
            .table("auth", reader)
            .map(|auth| self::auth(auth, reader));
        let timeout = table.number("timeout_seconds", TIMEOUT, reader);
        let mut service = Service {
            timeout_seconds: timeout.map_or(30, Spanned::into_inner),
            ..Service::default()
        };
        for table in table.tables("tool", reader) {
            let taken = tools(upstreams).chain(tools_of(&service));
            let taken: Vec<String> = taken.map(str::to_owned).collect();
            service.tools.extend(tool(&table, &taken, reader));
        }
        for table in table.tables("resource", reader) {
            let known = upstreams.services.iter().chain([&service]);
            let known = known.flat_map(|service| &service.resources);
            let taken: Vec<Template> = known.map(|one| one.uri.clone()).collect();
            service.resources.extend(resource(&table, &taken, reader));
        }
        let Some(name) = name else { continue };
        if upstreams
            .services
            .iter()
            .any(|one| one.name == *name.get_ref())
        {
            twice("service", &name, reader);
        }
        // Without one of these, there are problems.
        service.name = name.into_inner();
        service.url = url.unwrap_or_default();
        service.auth = auth.flatten();
        upstreams.services.push(service);
    }
}

fn tools(upstreams: &Upstreams) -> impl Iterator<Item = &str> {
    upstreams.services.iter().flat_map(tools_of)
}

fn tools_of(service: &Service) -> impl Iterator<Item = &str> {
    service.tools.iter().map(|tool| tool.name.as_str())
}

/// A name that clients take, of a service or a tool.
fn name(table: &Table<'_>, reader: &mut Reader<'_>) -> Option<Spanned<String>> {
    let name = table.required_text("name", reader)?;
    let text = name.get_ref();
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    if text.len() <= NAME && text.chars().all(plain) {
        return Some(name);
    }
    let problem = Problem::error(
        Code::BadValue,
        format!("`{}` is no name that MCP clients take", quote(text)),
    )
    .help(format!(
        "it has letters, digits, `_`, `-` and `.`, and {NAME} of them at most"
    ));
    reader.push(name.span(), problem);
    None
}

fn url(table: &Table<'_>, reader: &mut Reader<'_>) -> Option<String> {
    let text = table.required_text("url", reader)?;
    let wrong = match wire::address(text.get_ref()) {
        Ok(url) => return Some(url),
        Err(wrong) => wrong,
    };
    reader.push(text.span(), Problem::error(Code::BadValue, wrong));
    None
}

fn auth(table: Table<'_>, reader: &mut Reader<'_>) -> Option<Auth> {
    table.check(AUTH, reader);
    let token = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let header = table.text("header", reader);
    if let Some(header) = &header {
        let name = header.get_ref();
        let reserved = RESERVED.contains(&name.to_ascii_lowercase().as_str());
        if name.is_empty() || !name.chars().all(token) || reserved {
            let text = format!("`{}` is no header for secrets", quote(name));
            reader.push(header.span(), Problem::error(Code::BadValue, text));
        }
    }
    let scheme = table.text("scheme", reader);
    if let Some(scheme) = &scheme
        && !scheme.get_ref().chars().all(token)
    {
        let problem = Problem::error(
            Code::BadValue,
            format!("`{}` is no scheme", quote(scheme.get_ref())),
        )
        .help("it is a word as `Bearer`, or empty");
        reader.push(scheme.span(), problem);
    }
    let variables = table.texts("variables", reader);
    for variable in &variables {
        let name = variable.get_ref();
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.is_empty() || !name.chars().all(plain) {
            let problem = Problem::error(
                Code::BadValue,
                format!("`{}` is no name of a variable", quote(name)),
            )
            .help("a variable of the environment holds the secret, and this file its name");
            reader.push(variable.span(), problem);
        }
    }
    if !table.has("variables") {
        table.missing("variables", reader);
        return None;
    }
    if variables.is_empty() {
        let problem = Problem::error(Code::BadValue, "`variables` names no variable");
        reader.push(table.span_of("variables"), problem);
    }
    let or = |text: Option<Spanned<String>>, default: &str| {
        text.map_or_else(|| default.to_owned(), Spanned::into_inner)
    };
    Some(Auth {
        header: or(header, "Authorization"),
        scheme: or(scheme, "Bearer"),
        variables: variables.into_iter().map(Spanned::into_inner).collect(),
    })
}

fn tool(table: &Table<'_>, taken: &[String], reader: &mut Reader<'_>) -> Option<ServiceTool> {
    table.check(TOOL, reader);
    let name = name(table, reader);
    if let Some(name) = name.as_ref().filter(|name| taken.contains(name.get_ref())) {
        twice("tool", name, reader);
    }
    let description = table.required_text("description", reader);
    let method = required_word(table, "method", &METHODS, reader);
    let route = route(table, reader);
    let tier = required_word(table, "tier", &TIERS, reader);
    let mode = word(table, "mode", &MODES, reader).unwrap_or_default();
    let inputs = inputs(table, reader);
    let required = required(table, &inputs, reader);
    if let Some((span, route)) = &route {
        for parameter in route.parameters() {
            if let Some(wrong) = parameter_fault(parameter, &inputs, &required) {
                reader.push(span.clone(), Problem::error(Code::BadValue, wrong));
            }
        }
    }
    let entity = table.text("entity", reader);
    if let Some(entity) = &entity
        && type_of(&inputs, entity.get_ref()) != Some("string")
    {
        let problem = Problem::error(
            Code::BadValue,
            format!("`{}` is no input that is a text", quote(entity.get_ref())),
        )
        .help(input_names(&inputs, entity.get_ref()));
        reader.push(entity.span(), problem);
    }
    let mut input = json!({
        "type": "object",
        "properties": inputs,
        "additionalProperties": false,
    });
    if let (Some(input), false) = (input.as_object_mut(), required.is_empty()) {
        input.insert("required".to_owned(), json!(required));
    }
    Some(ServiceTool {
        name: name?.into_inner(),
        description: description?.into_inner(),
        method: method?.to_owned(),
        route: route?.1,
        tier: tier?.to_owned(),
        mode: mode.to_owned(),
        entity: entity.map(Spanned::into_inner).unwrap_or_default(),
        input: input.to_string(),
    })
}

/// What keeps an argument from standing in a route.
fn parameter_fault(name: &str, inputs: &Map<String, Value>, required: &[String]) -> Option<String> {
    if !inputs.contains_key(name) {
        Some(format!("there is no input for `{{{name}}}`"))
    } else if type_of(inputs, name) != Some("string") {
        Some(format!(
            "the input for `{{{name}}}` has to be of type `string`"
        ))
    } else if !required.iter().any(|one| one == name) {
        Some(format!(
            "the input for `{{{name}}}` has to be in `required`"
        ))
    } else {
        None
    }
}

fn type_of<'i>(inputs: &'i Map<String, Value>, name: &str) -> Option<&'i str> {
    inputs.get(name)?.get("type")?.as_str()
}

fn input_names(inputs: &Map<String, Value>, name: &str) -> String {
    suggest(name, inputs.keys().map(String::as_str))
        .unwrap_or_else(|| "inputs stand in `inputs`".to_owned())
}

/// The schema of each argument.
fn inputs(table: &Table<'_>, reader: &mut Reader<'_>) -> Map<String, Value> {
    let mut inputs = Map::new();
    let Some(named) = table.table("inputs", reader) else {
        return inputs;
    };
    for (name, _) in named.keys() {
        let Some(schema) = named.object(name, str::to_owned, reader) else {
            continue;
        };
        if reader.thorough
            && let Err(fault) = wire::argument(schema.get_ref())
        {
            let text = format!("this is no JSON Schema: {fault}");
            reader.push(schema.span(), Problem::error(Code::BadValue, text));
        }
        inputs.insert(name.to_owned(), schema.into_inner());
    }
    inputs
}

fn required(
    table: &Table<'_>,
    inputs: &Map<String, Value>,
    reader: &mut Reader<'_>,
) -> Vec<String> {
    let mut required = Vec::new();
    for name in table.texts("required", reader) {
        if !inputs.contains_key(name.get_ref()) {
            let text = format!("there is no input `{}`", quote(name.get_ref()));
            let problem =
                Problem::error(Code::BadValue, text).help(input_names(inputs, name.get_ref()));
            reader.push(name.span(), problem);
        }
        required.push(name.into_inner());
    }
    required
}

fn resource(
    table: &Table<'_>,
    taken: &[Template],
    reader: &mut Reader<'_>,
) -> Option<ServiceResource> {
    table.check(RESOURCE, reader);
    let uri = table.required_text("uri", reader);
    let uri = uri.and_then(|text| uri_of(text, taken, reader));
    let name = table.required_text("name", reader);
    let mut plain = |key| table.text(key, reader).map(Spanned::into_inner);
    let description = plain("description").unwrap_or_default();
    let media_type = plain("media_type").unwrap_or_else(|| "application/json".to_owned());
    let route = table.has("route").then(|| route(table, reader));
    let file = table.has("file").then(|| file(table, reader));
    let (from, span) = match (route, file) {
        (Some(route), None) => {
            let (span, route) = route?;
            (Origin::Route(route), span)
        }
        (None, Some(file)) => {
            let file = file?;
            (Origin::File(file.get_ref().clone()), file.span())
        }
        (None, None) => {
            table.missing("route", reader);
            return None;
        }
        (Some(_), Some(_)) => {
            let text = "a resource comes from a `route` or from a `file`, not from both";
            let problem = Problem::error(Code::BadValue, text);
            reader.push(table.span_of("file"), problem);
            return None;
        }
    };
    let uri = uri?;
    let wanted: Vec<&str> = match &from {
        Origin::Route(route) => route.parameters().collect(),
        Origin::File(_) => Vec::new(),
    };
    let mut given: Vec<&str> = uri.parameters().collect();
    given.sort_unstable();
    let mut sorted = wanted.clone();
    sorted.sort_unstable();
    if sorted != given {
        let text = "`uri` has not the same parameters as where it comes from";
        reader.push(span, Problem::error(Code::BadValue, text));
    }
    Some(ServiceResource {
        uri,
        name: name?.into_inner(),
        description,
        media_type,
        from,
    })
}

fn uri_of(text: Spanned<String>, taken: &[Template], reader: &mut Reader<'_>) -> Option<Template> {
    let scheme = text.get_ref().split_once("://").map(|(scheme, _)| scheme);
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "+.-".contains(c);
    let wrong = match scheme {
        Some("bridge") => "`bridge://` is this program's own".to_owned(),
        Some(scheme)
            if scheme.starts_with(|c: char| c.is_ascii_lowercase())
                && scheme.chars().all(plain) =>
        {
            match Template::parse(text.get_ref()) {
                Ok(uri) if taken.contains(&uri) => {
                    twice("resource", &text, reader);
                    return None;
                }
                Ok(uri) => return Some(uri),
                Err(wrong) => wrong,
            }
        }
        _ => "it has a scheme and `://`, as `ted://deals/{deal_id}`".to_owned(),
    };
    let problem = Problem::error(Code::BadValue, format!("this is no address: {wrong}"));
    reader.push(text.span(), problem);
    None
}

fn route(table: &Table<'_>, reader: &mut Reader<'_>) -> Option<(Range<usize>, Template)> {
    let text = table.required_text("route", reader)?;
    let parsed = match text.get_ref().starts_with('/') {
        true => Template::parse(text.get_ref()),
        false => Err("it begins with `/`".to_owned()),
    };
    match parsed {
        Ok(route) => Some((text.span(), route)),
        Err(wrong) => {
            let problem = Problem::error(Code::BadPath, format!("this is no route: {wrong}"));
            reader.push(text.span(), problem);
            None
        }
    }
}

fn file(table: &Table<'_>, reader: &mut Reader<'_>) -> Option<Spanned<String>> {
    let text = table.required_text("file", reader)?;
    let path = text.get_ref();
    let absolute = path.strip_prefix('/').is_some_and(|rest| {
        let parts = rest.split('/').map(|part| part.trim_end_matches('\0'));
        let odd = |part: &str| part.is_empty() || part == "." || part == "..";
        !path.contains('\0') && !parts.into_iter().any(odd)
    });
    if absolute {
        return Some(text);
    }
    let problem = Problem::error(
        Code::BadPath,
        "a file is named by its absolute path, without `.` and `..`",
    );
    reader.push(text.span(), problem);
    None
}

fn required_word(
    table: &Table<'_>,
    name: &str,
    words: &[(&'static str, &'static str)],
    reader: &mut Reader<'_>,
) -> Option<&'static str> {
    if !table.has(name) {
        table.missing(name, reader);
    }
    word(table, name, words, reader)
}

fn twice(what: &str, name: &Spanned<String>, reader: &mut Reader<'_>) {
    let text = format!("there is another {what} `{}`", quote(name.get_ref()));
    reader.push(name.span(), Problem::error(Code::DuplicateId, text));
}
