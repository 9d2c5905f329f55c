//! Lines of the record as log records of OpenTelemetry. `audit/otel.md` has the table.

use data_encoding::HEXLOWER;
use jiff::Timestamp;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{
    AnyValue, ArrayValue, InstrumentationScope, KeyValue, KeyValueList,
};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs, SeverityNumber};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message;
use serde_json::{Map, Value};

/// The version of the semantic conventions that the names are taken from.
const SCHEMA: &str = "https://opentelemetry.io/schemas/1.41.0";

/// What the program calls itself.
const SERVICE: &str = "copilot-bridge";

/// A line of a file of the record.
#[derive(Debug, Clone, Copy)]
pub struct Line<'a> {
    /// Its id: see [`super::id`].
    pub id: &'a str,
    /// Its bytes, without line feed; only the first ones of a line that is longer than any of the record.
    pub bytes: &'a [u8],
    /// How many bytes it has.
    pub length: u64,
}

/// How lines are written.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// When the lines were read.
    pub observed: Timestamp,
    /// Whether `log.record.original` has each line as it is, so that the chain can be verified.
    pub original: bool,
}

/// The lines as one request of OTLP, in their order. Lines beside each other that are of one machine and
/// version share a resource.
#[must_use]
pub fn request<'a>(
    lines: impl IntoIterator<Item = Line<'a>>,
    options: Options,
) -> ExportLogsServiceRequest {
    let mut groups: Vec<ResourceLogs> = Vec::new();
    let mut origin: Option<(Value, Value)> = None;
    for line in lines {
        let fields = fields(&line);
        let of = |name: &str| fields.as_ref().and_then(|fields| fields.get(name)).cloned();
        let from = (
            of("host").unwrap_or_default(),
            of("engine_version").unwrap_or_default(),
        );
        let log = match &fields {
            Some(fields) => record(&line, fields, options),
            None => unread(&line, options),
        };
        if origin.as_ref() != Some(&from) {
            groups.push(group(&from.0, &from.1));
            origin = Some(from);
        }
        let scope = groups.last_mut().and_then(|all| all.scope_logs.last_mut());
        if let Some(scope) = scope {
            scope.log_records.push(log);
        }
    }
    ExportLogsServiceRequest {
        resource_logs: groups,
    }
}

/// The request as OTLP wants it in binary.
#[must_use]
pub fn protobuf(request: &ExportLogsServiceRequest) -> Vec<u8> {
    request.encode_to_vec()
}

/// The request as OTLP wants it in JSON: one line, without a line feed at its end.
///
/// # Errors
/// If a number in it is none of JSON.
pub fn json(request: &ExportLogsServiceRequest) -> serde_json::Result<Vec<u8>> {
    serde_json::to_vec(request)
}

/// The line, if it is an object.
fn fields(line: &Line<'_>) -> Option<Map<String, Value>> {
    if line.bytes.len() as u64 != line.length {
        return None;
    }
    serde_json::from_slice(line.bytes).ok()
}

fn group(host: &Value, version: &Value) -> ResourceLogs {
    let own = Value::from(env!("CARGO_PKG_VERSION"));
    let mut attributes = vec![text("service.name", SERVICE)];
    attributes.extend(attribute("service.version", version));
    attributes.extend(attribute("host.name", host));
    ResourceLogs {
        resource: Some(Resource {
            attributes,
            ..Resource::default()
        }),
        scope_logs: vec![ScopeLogs {
            scope: Some(InstrumentationScope {
                name: format!("{SERVICE}.audit"),
                version: own.as_str().unwrap_or_default().to_owned(),
                ..InstrumentationScope::default()
            }),
            schema_url: SCHEMA.to_owned(),
            ..ScopeLogs::default()
        }],
        schema_url: SCHEMA.to_owned(),
    }
}

fn record(line: &Line<'_>, fields: &Map<String, Value>, options: Options) -> LogRecord {
    let word = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default();
    let (number, severity) = severity(fields);
    let mut log = LogRecord {
        time_unix_nano: word("ts").parse().map_or(0, nanoseconds),
        severity_number: number.into(),
        severity_text: severity.to_owned(),
        body: Some(any(&Value::from(sentence(fields)))),
        event_name: format!("copilot_bridge.{}", word("kind")),
        attributes: identity(line),
        ..blank(options)
    };
    let kind = word("kind");
    if matches!(
        kind,
        "tool_use" | "permission" | "mcp_call" | "mcp_tool_call" | "result"
    ) && fields.get("tool").is_some_and(Value::is_string)
    {
        log.attributes
            .push(text("gen_ai.operation.name", "execute_tool"));
    }
    if let Some(rule) = reasons(fields).next() {
        log.attributes.push(text("security_rule.name", rule));
    }
    for (name, value) in fields {
        match name.as_str() {
            "ts" | "host" | "engine_version" => {}
            "trace" => trace(value, &mut log),
            // It is a name, even where it is a number.
            "uid" => log.attributes.push(text("user.id", &value.to_string())),
            name => {
                let own = || format!("copilot_bridge.{name}");
                let known = conventional(name).filter(|_| !is_hidden(value));
                let name = known.map_or_else(own, str::to_owned);
                log.attributes.extend(attribute(&name, value));
            }
        }
    }
    if options.original
        && let Ok(original) = std::str::from_utf8(line.bytes)
    {
        log.attributes.push(text("log.record.original", original));
    }
    log
}

/// The attribute that the conventions have for a field.
fn conventional(field: &str) -> Option<&'static str> {
    Some(match field {
        "session" => "gen_ai.conversation.id",
        "call" => "gen_ai.tool.call.id",
        "agent" => "gen_ai.agent.id",
        "tool" => "gen_ai.tool.name",
        "args_redacted" => "gen_ai.tool.call.arguments",
        "pid" => "process.pid",
        "error_class" => "error.type",
        "v" => "copilot_bridge.record.version",
        "seq" => "copilot_bridge.record.seq",
        "prev" => "copilot_bridge.record.prev",
        _ => return None,
    })
}

/// Whether only HMAC and length of a text are there: that is no id or name.
fn is_hidden(value: &Value) -> bool {
    value.get("hmac").is_some()
}

/// A line that is none of the record: torn, or made up.
fn unread(line: &Line<'_>, options: Options) -> LogRecord {
    let mut attributes = identity(line);
    attributes.extend(attribute(
        "copilot_bridge.record.length",
        &line.length.into(),
    ));
    if options.original
        && line.bytes.len() as u64 == line.length
        && let Ok(original) = std::str::from_utf8(line.bytes)
    {
        attributes.push(text("log.record.original", original));
    }
    LogRecord {
        severity_number: SeverityNumber::Warn.into(),
        severity_text: "WARN".to_owned(),
        body: Some(any(&Value::from("a line that is none of the record"))),
        event_name: "copilot_bridge.unread".to_owned(),
        attributes,
        ..blank(options)
    }
}

fn blank(options: Options) -> LogRecord {
    LogRecord {
        observed_time_unix_nano: nanoseconds(options.observed),
        ..LogRecord::default()
    }
}

fn identity(line: &Line<'_>) -> Vec<KeyValue> {
    vec![
        text("log.record.uid", line.id),
        text("copilot_bridge.record.id", line.id),
    ]
}

fn nanoseconds(time: Timestamp) -> u64 {
    u64::try_from(time.as_nanosecond()).unwrap_or(0)
}

fn severity(fields: &Map<String, Value>) -> (SeverityNumber, &'static str) {
    let word = |name: &str| fields.get(name).and_then(Value::as_str);
    match (word("kind"), word("error_class"), word("decision")) {
        (Some("removed" | "approval"), ..) => (SeverityNumber::Info, "INFO"),
        (Some("recovered" | "superseded" | "lost"), ..) => (SeverityNumber::Warn, "WARN"),
        (Some("fault"), ..) | (_, Some(_), _) => (SeverityNumber::Error, "ERROR"),
        (.., Some("deny")) => (SeverityNumber::Warn, "WARN"),
        (.., Some("ask")) => (SeverityNumber::Info2, "INFO2"),
        _ => (SeverityNumber::Info, "INFO"),
    }
}

/// `deny pre_tool_use of bash: default:privileged-command`
fn sentence(fields: &Map<String, Value>) -> String {
    let word = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default();
    match word("kind") {
        "recovered" => return "a line that was cut short was ended".to_owned(),
        "superseded" => return "a denial left before its line was written".to_owned(),
        "lost" => return "lines that were written are gone".to_owned(),
        "removed" => return "old files were removed".to_owned(),
        "approval" => return "a person answered what policies ask".to_owned(),
        _ => {}
    }
    let mut sentence = format!("{} {}", word("decision"), word("event"));
    if !word("tool").is_empty() {
        sentence = format!("{sentence} of {}", word("tool"));
    }
    let mut why: Vec<&str> = reasons(fields).collect();
    if !word("error_class").is_empty() {
        why.push(word("error_class"));
    }
    if !why.is_empty() {
        sentence = format!("{sentence}: {}", why.join(", "));
    }
    sentence
}

fn reasons(fields: &Map<String, Value>) -> impl Iterator<Item = &str> {
    fields
        .get("reasons")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|reason| reason.get("id").and_then(Value::as_str))
}

/// W3C trace context, as far as it is well formed.
fn trace(value: &Value, log: &mut LogRecord) {
    let part = |name: &str| value.get(name).and_then(Value::as_str);
    if let Some((trace, span, flags)) = part("traceparent").and_then(parent) {
        log.trace_id = trace;
        log.span_id = span;
        log.flags = flags;
    }
    if let Some(state) = part("tracestate") {
        log.attributes
            .push(text("copilot_bridge.tracestate", state));
    }
}

/// `00-<32 digits>-<16 digits>-<2 digits>`, neither id all zeros.
fn parent(text: &str) -> Option<(Vec<u8>, Vec<u8>, u32)> {
    let mut parts = text.split('-').skip(1);
    let mut bytes = |count: usize| {
        let bytes = HEXLOWER.decode(parts.next()?.as_bytes()).ok()?;
        (bytes.len() == count).then_some(bytes)
    };
    let (trace, span, flags) = (bytes(16)?, bytes(8)?, bytes(1)?);
    let some = |id: &[u8]| id.iter().any(|byte| *byte != 0);
    (some(&trace) && some(&span)).then_some((trace, span, flags.first().copied()?.into()))
}

fn text(key: &str, value: &str) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue {
            value: Some(Any::StringValue(value.to_owned())),
        }),
        ..KeyValue::default()
    }
}

/// What says nothing is left out.
fn attribute(key: &str, value: &Value) -> Option<KeyValue> {
    (!value.is_null()).then(|| KeyValue {
        key: key.to_owned(),
        value: Some(any(value)),
        ..KeyValue::default()
    })
}

fn any(value: &Value) -> AnyValue {
    let value = match value {
        Value::Null => None,
        Value::Bool(bool) => Some(Any::BoolValue(*bool)),
        Value::Number(number) => Some(match (number.as_i64(), number.as_f64()) {
            (Some(number), _) => Any::IntValue(number),
            (None, Some(number)) if !number.is_nan() && number.abs() < 1e18 => {
                Any::DoubleValue(number)
            }
            // It would lose digits.
            _ => Any::StringValue(number.to_string()),
        }),
        Value::String(text) => Some(Any::StringValue(text.clone())),
        Value::Array(all) => Some(Any::ArrayValue(ArrayValue {
            values: all.iter().map(any).collect(),
        })),
        Value::Object(fields) => Some(Any::KvlistValue(KeyValueList {
            values: fields
                .iter()
                .filter_map(|(name, value)| attribute(name, value))
                .collect(),
        })),
    };
    AnyValue { value }
}

#[cfg(test)]
mod tests;
