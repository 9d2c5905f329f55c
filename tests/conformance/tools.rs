//! The tools and resources that the suite asks for by name, as any toolset of ours: each call passes
//! the gate on its way.

use std::sync::Arc;
use std::time::Duration;

use bridge::engine::request::ToolFacts;
use bridge::gate::event::{Reach, Served};
use bridge::mcp::rmcp::model::*;
use bridge::mcp::toolset::{Call, Resources, Toolset, Unavailable};
use copilot_bridge as bridge;
use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;
use tokio::time::sleep;

use crate::fixture::Subscribers;

/// One red pixel.
pub(crate) const PICTURE: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";

/// No sound.
const SOUND: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA=";

/// What needs nothing but its name.
const PLAIN: [&str; 23] = [
    "test_simple_text",
    "test_image_content",
    "test_audio_content",
    "test_embedded_resource",
    "test_multiple_content_types",
    "test_tool_with_logging",
    "test_error_handling",
    "test_tool_with_progress",
    "test_elicitation_sep1034_defaults",
    "test_elicitation_sep1330_enums",
    "test_reconnection",
    "test_trigger_tool_change",
    "test_trigger_prompt_change",
    "test_missing_capability",
    "test_streaming_elicitation",
    "test_logging_tool",
    "test_input_required_result_elicitation",
    "test_input_required_result_sampling",
    "test_input_required_result_list_roots",
    "test_input_required_result_request_state",
    "test_input_required_result_multiple_inputs",
    "test_input_required_result_multi_round",
    "test_input_required_result_capabilities",
];

/// The same, but what it was given to keep comes back changed.
const TAMPERED: &str = "test_input_required_result_tampered_state";

#[derive(Debug)]
pub(crate) struct Tools {
    pub(crate) subscribers: Subscribers,
    /// What states are signed with.
    pub(crate) key: [u8; 32],
}

/// The tool whose argument comes in a header as well.
pub(crate) fn custom_header() -> Tool {
    tool(
        "test_custom_header",
        json!({
            "type": "object",
            "properties": {"value": {"type": "string", "x-mcp-header": "Value"}},
            "required": ["value"],
        }),
    )
}

fn tool(name: &'static str, schema: Value) -> Tool {
    Tool::new(
        name,
        format!("What the suite calls {name}"),
        Arc::new(object(schema)),
    )
}

fn object(value: Value) -> JsonObject {
    match value {
        Value::Object(fields) => fields,
        _ => JsonObject::new(),
    }
}

fn with_text(argument: &str) -> Value {
    json!({
        "type": "object",
        "properties": {argument: {"type": "string"}},
        "required": [argument],
    })
}

/// All of what a schema may hold today.
fn rich() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }},
        "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
        "allOf": [{"anyOf": [{"required": ["name"]}, {"required": ["address"]}]}],
        "if": {"required": ["address"]},
        "then": {"properties": {"address": {"required": ["street"]}}},
        "else": {"required": ["name"]},
        "additionalProperties": false,
    })
}

impl Toolset for Tools {
    fn tools(&self) -> BoxFuture<'_, Result<Vec<Tool>, Unavailable>> {
        let empty = || json!({"type": "object", "properties": {}});
        let mut tools: Vec<Tool> = PLAIN.iter().map(|name| tool(name, empty())).collect();
        tools.extend([
            tool(TAMPERED, empty()),
            tool("test_sampling", with_text("prompt")),
            tool("test_elicitation", with_text("message")),
            tool("json_schema_2020_12_tool", rich()),
            custom_header(),
        ]);
        async { Ok(tools) }.boxed()
    }

    fn served<'a>(
        &'a self,
        name: &'a str,
        _: &'a JsonObject,
    ) -> BoxFuture<'a, Result<Option<Served>, Unavailable>> {
        async move {
            let known = self.tools().await?.iter().any(|tool| tool.name == name);
            Ok(known.then(|| read_only(name)))
        }
        .boxed()
    }

    fn call<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, CallToolResult> {
        async move {
            match self.answer(&call).await {
                Ok(CallToolResponse::Complete(result)) => result,
                _ => failed("it needs something first"),
            }
        }
        .boxed()
    }

    fn respond<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, Result<CallToolResponse, ErrorData>> {
        async move { self.answer(&call).await }.boxed()
    }
}

/// What policies are told of everything here.
pub(crate) fn read_only(name: &str) -> Served {
    Served {
        tool: ToolFacts {
            server: "fixture".to_owned(),
            name: name.to_owned(),
            tier: "read_only".to_owned(),
            ..ToolFacts::default()
        },
        reach: Reach::Nothing,
        provider: "fixture".to_owned(),
        ..Served::default()
    }
}

fn text(text: impl Into<String>) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(text)])
}

fn failed(why: &str) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(why)])
}

fn embedded(uri: &str, media: &str, text: &str) -> ContentBlock {
    ContentBlock::resource(ResourceContents::TextResourceContents {
        uri: uri.to_owned(),
        mime_type: Some(media.to_owned()),
        text: text.to_owned(),
        meta: None,
    })
}

impl Tools {
    async fn answer(&self, call: &Call<'_>) -> Result<CallToolResponse, ErrorData> {
        let argument = |name: &str| call.arguments.get(name).and_then(Value::as_str);
        let peer = &call.context.peer;
        let result = match call.name {
            name if name.starts_with("test_input_required_result_") => return self.input(call),
            "test_simple_text" => text("This is a simple text response for testing."),
            "test_image_content" => {
                CallToolResult::success(vec![ContentBlock::image(PICTURE, "image/png")])
            }
            "test_audio_content" => CallToolResult::success(vec![ContentBlock::Audio(
                AudioContent::new(SOUND, "audio/wav"),
            )]),
            "test_embedded_resource" => CallToolResult::success(vec![embedded(
                "test://embedded-resource",
                "text/plain",
                "This is an embedded resource content.",
            )]),
            "test_multiple_content_types" => CallToolResult::success(vec![
                ContentBlock::text("Multiple content types test:"),
                ContentBlock::image(PICTURE, "image/png"),
                embedded(
                    "test://mixed-content-resource",
                    "application/json",
                    r#"{"test":"data","value":123}"#,
                ),
            ]),
            "test_error_handling" => failed("This tool intentionally returns an error for testing"),
            "test_tool_with_logging" => {
                for line in ["started", "processing data", "completed"] {
                    let told = json!(format!("Tool {line}"));
                    let told = LoggingMessageNotificationParam::new(LoggingLevel::Info, told);
                    let _ = peer.notify_logging_message(told).await;
                    sleep(Duration::from_millis(50)).await;
                }
                text("logged")
            }
            "test_logging_tool" => {
                if let Some(level) = call.context.meta.log_level() {
                    let told = LoggingMessageNotificationParam::new(level, json!("as asked"));
                    let _ = peer.notify_logging_message(told).await;
                }
                text("logged, if asked")
            }
            "test_tool_with_progress" => {
                for done in [0.0, 50.0, 100.0] {
                    if let Some(token) = call.context.meta.get_progress_token() {
                        let told = ProgressNotificationParam::new(token, done).with_total(100.0);
                        let _ = peer.notify_progress(told).await;
                    }
                    sleep(Duration::from_millis(50)).await;
                }
                text("done")
            }
            "test_custom_header" => match argument("value") {
                Some(value) => text(value),
                None => return Err(ErrorData::invalid_params("`value` is missing", None)),
            },
            "test_sampling" => {
                let asked = SamplingMessage::user_text(argument("prompt").unwrap_or("Hello"));
                let asked = CreateMessageRequestParams::new(vec![asked], 100);
                match peer.create_message(asked).await {
                    Ok(said) => {
                        let said = said.message.content.first().and_then(|one| one.as_text());
                        text(format!(
                            "LLM response: {}",
                            said.map_or("", |said| &said.text)
                        ))
                    }
                    Err(error) => failed(&error.to_string()),
                }
            }
            "test_elicitation" => {
                let asked = json!({"username": {"type": "string"}, "email": {"type": "string"}});
                let asked = form(
                    argument("message").unwrap_or("Who?"),
                    asked,
                    &["username", "email"],
                );
                elicit(call, asked).await
            }
            "test_elicitation_sep1034_defaults" => {
                let asked = json!({
                    "name": {"type": "string", "default": "John Doe"},
                    "age": {"type": "integer", "default": 30},
                    "score": {"type": "number", "default": 95.5},
                    "status": {
                        "type": "string", "enum": ["active", "inactive", "pending"], "default": "active",
                    },
                    "verified": {"type": "boolean", "default": true},
                });
                elicit(call, form("All have defaults", asked, &[])).await
            }
            "test_elicitation_sep1330_enums" => {
                let options = json!(["option1", "option2", "option3"]);
                let titled = json!([
                    {"const": "value1", "title": "First Option"},
                    {"const": "value2", "title": "Second Option"},
                    {"const": "value3", "title": "Third Option"},
                ]);
                let asked = json!({
                    "untitledSingle": {"type": "string", "enum": options},
                    "titledSingle": {"type": "string", "oneOf": titled},
                    "legacyEnum": {
                        "type": "string", "enum": ["opt1", "opt2", "opt3"],
                        "enumNames": ["Option One", "Option Two", "Option Three"],
                    },
                    "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
                    "titledMulti": {"type": "array", "items": {"anyOf": titled}},
                });
                elicit(call, form("Choose", asked, &[])).await
            }
            "json_schema_2020_12_tool" => text("It has a schema"),
            "test_reconnection" => {
                sleep(Duration::from_millis(100)).await;
                text("done")
            }
            "test_trigger_tool_change" => {
                self.subscribers.tools_changed().await;
                text("told")
            }
            "test_trigger_prompt_change" => {
                self.subscribers.prompts_changed().await;
                text("told")
            }
            "test_missing_capability" => {
                let able = call.context.meta.client_capabilities().unwrap_or_default();
                if able.sampling.is_none() {
                    let needed = ClientCapabilities::builder().enable_sampling().build();
                    return Err(ErrorData::missing_required_client_capability(needed));
                }
                text("it can")
            }
            "test_streaming_elicitation" => {
                let asked = form("A value", json!({"value": {"type": "string"}}), &["value"]);
                return Ok(needs([("value", person(asked))], None));
            }
            other => {
                return Err(ErrorData::invalid_params(
                    format!("no tool `{other}`"),
                    None,
                ));
            }
        };
        Ok(result.into())
    }

    /// The tools that need something of the client before they answer.
    fn input(&self, call: &Call<'_>) -> Result<CallToolResponse, ErrorData> {
        let given = |name: &str| call.input.and_then(|input| input.get(name)?.as_object());
        let said = |name: &str, pointer: &str| {
            let answer = Value::Object(given(name)?.clone());
            Some(answer.pointer(pointer)?.as_str()?.to_owned())
        };
        let name = || {
            let asked = json!({"name": {"type": "string"}});
            person(form("What is your name?", asked, &["name"]))
        };
        let roots = || InputRequest::ListRoots(ListRootsRequest::default());
        let state = call.state.map(|state| self.open(state)).transpose()?;
        let kind = call.name.trim_start_matches("test_input_required_result_");
        Ok(match kind {
            "elicitation" => match given("user_name") {
                Some(_) => {
                    let name = said("user_name", "/content/name").unwrap_or_default();
                    text(format!("Hello, {name}!")).into()
                }
                None => needs([("user_name", name())], None),
            },
            "sampling" => match given("capital_question") {
                Some(_) => {
                    let said = said("capital_question", "/content/text").unwrap_or_default();
                    text(said).into()
                }
                None => needs(
                    [("capital_question", model("What is the capital of France?"))],
                    None,
                ),
            },
            "list_roots" => match given("client_roots") {
                Some(roots) => text(Value::Object(roots.clone()).to_string()).into(),
                None => needs([("client_roots", roots())], None),
            },
            "request_state" | "tampered_state" => match state {
                Some(_) => text("state-ok").into(),
                None => {
                    let asked = form("Sure?", json!({"ok": {"type": "boolean"}}), &["ok"]);
                    needs([("confirm", person(asked))], Some(self.seal(1)))
                }
            },
            "multiple_inputs" => {
                let all = ["user_name", "greeting", "client_roots"];
                if state.is_some() && all.iter().all(|name| given(name).is_some()) {
                    text("All of it came").into()
                } else {
                    let asked = [
                        ("user_name", name()),
                        ("greeting", model("Generate a greeting")),
                        ("client_roots", roots()),
                    ];
                    needs(asked, Some(self.seal(1)))
                }
            }
            "multi_round" => match state.unwrap_or(0) {
                0 => needs([("step1", name())], Some(self.seal(1))),
                1 => {
                    let asked = form(
                        "Which colour?",
                        json!({"color": {"type": "string"}}),
                        &["color"],
                    );
                    needs([("step2", person(asked))], Some(self.seal(2)))
                }
                _ => text("That was all").into(),
            },
            "capabilities" => {
                let able = call.context.meta.client_capabilities().unwrap_or_default();
                let asked = [
                    able.elicitation.is_some().then(|| ("user_name", name())),
                    able.sampling
                        .is_some()
                        .then(|| ("greeting", model("Generate a greeting"))),
                    able.roots.is_some().then(|| ("client_roots", roots())),
                ];
                let asked: Vec<_> = asked.into_iter().flatten().collect();
                if call.input.is_some() || asked.is_empty() {
                    text("That was all").into()
                } else {
                    needs(asked, None)
                }
            }
            other => {
                return Err(ErrorData::invalid_params(
                    format!("no tool `{other}`"),
                    None,
                ));
            }
        })
    }

    /// A round, as a client may keep it.
    fn seal(&self, round: u64) -> String {
        let text = BASE64URL_NOPAD.encode(&round.to_be_bytes());
        let tag = HEXLOWER.encode(&self.mac(&text).finalize().into_bytes());
        format!("{text}.{tag}")
    }

    fn open(&self, state: &str) -> Result<u64, ErrorData> {
        let refused = || ErrorData::invalid_params("the state was changed on its way", None);
        let (text, tag) = state.split_once('.').ok_or_else(refused)?;
        let tag = HEXLOWER.decode(tag.as_bytes()).map_err(|_| refused())?;
        self.mac(text).verify_slice(&tag).map_err(|_| refused())?;
        let round = BASE64URL_NOPAD
            .decode(text.as_bytes())
            .map_err(|_| refused())?;
        let round: [u8; 8] = round.try_into().map_err(|_| refused())?;
        Ok(u64::from_be_bytes(round))
    }

    fn mac(&self, text: &str) -> Hmac<Sha256> {
        let mut mac = Hmac::new_from_slice(&self.key).unwrap();
        mac.update(text.as_bytes());
        mac
    }
}

pub(crate) fn form(message: &str, properties: Value, required: &[&str]) -> ElicitRequestParams {
    let schema = json!({"type": "object", "properties": properties, "required": required});
    ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: message.to_owned(),
        requested_schema: serde_json::from_value(schema).unwrap(),
    }
}

pub(crate) fn person(asked: ElicitRequestParams) -> InputRequest {
    InputRequest::Elicitation(ElicitRequest::new(asked))
}

fn model(prompt: &str) -> InputRequest {
    let asked = CreateMessageRequestParams::new(vec![SamplingMessage::user_text(prompt)], 100);
    InputRequest::CreateMessage(CreateMessageRequest::new(asked))
}

fn needs(
    asked: impl IntoIterator<Item = (&'static str, InputRequest)>,
    state: Option<String>,
) -> CallToolResponse {
    let mut requests = InputRequests::new();
    for (name, request) in asked {
        requests.insert(name.into(), request);
    }
    InputRequiredResult::new(Some(requests), state).into()
}

async fn elicit(call: &Call<'_>, asked: ElicitRequestParams) -> CallToolResult {
    match call.context.peer.create_elicitation(asked).await {
        Ok(said) => {
            let action = serde_json::to_value(&said.action).unwrap();
            let action = action.as_str().unwrap_or_default();
            text(format!("action={action}, content={}", json!(said.content)))
        }
        Err(error) => failed(&error.to_string()),
    }
}

/// The resources that the suite asks for.
#[derive(Debug)]
pub(crate) struct Files;

impl Resources for Files {
    fn resources(&self) -> BoxFuture<'_, Result<Vec<Resource>, Unavailable>> {
        let one = |name: &str, media: &str| {
            Resource::new(format!("test://{name}"), name).with_mime_type(media)
        };
        let all = vec![
            one("static-text", "text/plain"),
            one("static-binary", "image/png"),
        ];
        async { Ok(all) }.boxed()
    }

    fn templates(&self) -> BoxFuture<'_, Result<Vec<ResourceTemplate>, Unavailable>> {
        let all = vec![
            ResourceTemplate::new("test://template/{id}/data", "template")
                .with_mime_type("application/json"),
        ];
        async { Ok(all) }.boxed()
    }

    fn served<'a>(&'a self, uri: &'a str) -> BoxFuture<'a, Result<Option<Served>, Unavailable>> {
        let known = contents(uri).is_some();
        async move { Ok(known.then(|| read_only("resources"))) }.boxed()
    }

    fn read<'a>(
        &'a self,
        uri: &'a str,
        _: Call<'a>,
    ) -> BoxFuture<'a, Result<ReadResourceResult, Unavailable>> {
        let contents = contents(uri).into_iter().collect();
        async move { Ok(ReadResourceResult::new(contents)) }.boxed()
    }
}

fn contents(uri: &str) -> Option<ResourceContents> {
    let text = |media: &str, text: String| ResourceContents::TextResourceContents {
        uri: uri.to_owned(),
        mime_type: Some(media.to_owned()),
        text,
        meta: None,
    };
    Some(match uri {
        "test://static-text" => text(
            "text/plain",
            "This is the content of the static text resource.".to_owned(),
        ),
        "test://static-binary" => ResourceContents::BlobResourceContents {
            uri: uri.to_owned(),
            mime_type: Some("image/png".to_owned()),
            blob: PICTURE.to_owned(),
            meta: None,
        },
        other => {
            let id = other
                .strip_prefix("test://template/")?
                .strip_suffix("/data")?;
            let data =
                json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")});
            text("application/json", data.to_string())
        }
    })
}
