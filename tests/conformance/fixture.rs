//! A server with everything that the suite tries. Tools and resources are those of a [`Bridge`]; what a
//! bridge does not offer (prompts, completions, subscriptions) is added here.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bridge::mcp::Bridge;
use bridge::mcp::rmcp::model::*;
use bridge::mcp::rmcp::service::{RequestContext, SubscriptionContext, SubscriptionSink};
use bridge::mcp::rmcp::{RoleServer, ServerHandler};
use copilot_bridge as bridge;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::tools::{PICTURE, custom_header, form, person};

/// Who wants to hear of changes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Subscribers {
    next: Arc<AtomicU64>,
    sinks: Arc<Mutex<HashMap<u64, SubscriptionSink>>>,
}

impl Subscribers {
    pub(crate) async fn tools_changed(&self) {
        for sink in self.sinks.lock().await.values() {
            let _ = sink.notify_tool_list_changed().await;
        }
    }

    pub(crate) async fn prompts_changed(&self) {
        for sink in self.sinks.lock().await.values() {
            let _ = sink.notify_prompt_list_changed().await;
        }
    }
}

#[derive(Clone)]
pub(crate) struct Fixture {
    pub(crate) bridge: Bridge,
    pub(crate) subscribers: Subscribers,
}

impl ServerHandler for Fixture {
    fn get_info(&self) -> ServerConfig {
        let mut info = self.bridge.get_info();
        info.capabilities = ServerCapabilities::builder()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_resources_list_changed()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_logging()
            .enable_completions()
            .build();
        info
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        (name == "test_custom_header").then(custom_header)
    }

    async fn list_tools(
        &self,
        page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        self.bridge.list_tools(page, context).await
    }

    async fn call_tool(
        &self,
        params: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.bridge.call_tool(params, context).await
    }

    async fn list_resources(
        &self,
        page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        self.bridge.list_resources(page, context).await
    }

    async fn list_resource_templates(
        &self,
        page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        self.bridge.list_resource_templates(page, context).await
    }

    async fn read_resource(
        &self,
        params: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        self.bridge.read_resource(params, context).await
    }

    fn accepted_subscription_filter(
        &self,
        wanted: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(wanted.supported_by(&self.get_info().capabilities))
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let key = self.subscribers.next.fetch_add(1, Ordering::Relaxed);
        let sinks = &self.subscribers.sinks;
        sinks.lock().await.insert(key, context.sink().clone());
        context.cancelled().await;
        sinks.lock().await.remove(&key);
        Ok(())
    }

    async fn subscribe(
        &self,
        _: SubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn unsubscribe(
        &self,
        _: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn set_level(
        &self,
        _: SetLevelRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn complete(
        &self,
        _: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let values = CompletionInfo::new(vec!["one".to_owned(), "two".to_owned()]);
        values
            .map(CompleteResult::new)
            .map_err(|error| ErrorData::internal_error(error, None))
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let plain = |name: &str| Prompt::new(name, Some("For the suite"), None);
        let arguments = ["arg1", "arg2"].map(|name| PromptArgument::new(name).with_required(true));
        let prompts = vec![
            plain("test_simple_prompt"),
            Prompt::new(
                "test_prompt_with_arguments",
                Some("For the suite"),
                Some(arguments.into()),
            ),
            plain("test_prompt_with_embedded_resource"),
            plain("test_prompt_with_image"),
            plain("test_input_required_result_prompt"),
        ];
        Ok(ListPromptsResult::with_all_items(prompts))
    }

    async fn get_prompt(
        &self,
        params: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let user = |text: String| PromptMessage::new_text(Role::User, text);
        let arguments = params.arguments.unwrap_or_default();
        let argument = |name: &str| arguments.get(name).and_then(Value::as_str).unwrap_or("");
        let messages = match params.name.as_str() {
            "test_simple_prompt" => vec![user("This is a simple prompt for testing.".to_owned())],
            "test_prompt_with_arguments" => vec![user(format!(
                "Prompt with arguments: arg1='{}', arg2='{}'",
                argument("arg1"),
                argument("arg2")
            ))],
            "test_prompt_with_embedded_resource" => vec![PromptMessage::new_resource(
                Role::User,
                argument("resourceUri").to_owned(),
                Some("text/plain".to_owned()),
                Some("Embedded resource content for testing.".to_owned()),
                None,
                None,
                None,
            )],
            "test_prompt_with_image" => vec![PromptMessage::new(
                Role::User,
                ContentBlock::Image(ImageContent::new(PICTURE, "image/png")),
            )],
            "test_input_required_result_prompt" => {
                let input = params.input_responses.as_ref();
                match input.and_then(|input| input.get("user_context")?.as_object()) {
                    Some(said) => vec![user(json!(said).to_string())],
                    None => {
                        let asked = json!({"context": {"type": "string"}});
                        let mut requests = InputRequests::new();
                        let asked = person(form("Which context?", asked, &["context"]));
                        requests.insert("user_context".into(), asked);
                        return Ok(InputRequiredResult::from_input_requests(requests).into());
                    }
                }
            }
            other => {
                return Err(ErrorData::invalid_params(
                    format!("no prompt `{other}`"),
                    None,
                ));
            }
        };
        Ok(GetPromptResult::new(messages).into())
    }
}
