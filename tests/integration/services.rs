//! `mcp services`: what `upstreams.toml` names, called through the program as a client calls it.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::program::{Stage, run};

/// A request that came to the service.
#[derive(Debug, Clone, PartialEq)]
struct Seen {
    method: String,
    url: String,
    body: Value,
    headers: Vec<(String, String)>,
}

/// An HTTP service that says what it was asked.
struct Service {
    port: u16,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Service {
    fn start() -> Self {
        let server = tiny_http::Server::http("127.0.0.1:0").unwrap();
        let port = server.server_addr().to_ip().unwrap().port();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&seen);
        std::thread::spawn(move || {
            for mut request in server.incoming_requests() {
                let mut body = String::new();
                request.as_reader().read_to_string(&mut body).unwrap();
                let headers = request.headers().iter().map(|header| {
                    let name = header.field.as_str().as_str().to_ascii_lowercase();
                    (name, header.value.as_str().to_owned())
                });
                let one = Seen {
                    method: request.method().to_string(),
                    url: request.url().to_owned(),
                    body: serde_json::from_str(&body).unwrap_or(Value::Null),
                    headers: headers.collect(),
                };
                let told = one.header("authorization").unwrap_or_default().to_owned();
                log.lock().unwrap().push(one.clone());
                let (status, text) = match one.url.as_str() {
                    "/deals/teapot" => (418, format!("no tea for {told}")),
                    "/deals/elsewhere" => (302, String::new()),
                    "/deals/large" => (200, "x".repeat((4 << 20) + 1)),
                    "/deals/echo" => (200, format!("you are {told}")),
                    "/deals/secret" => {
                        let token = format!("ghp_{}", "0aB1".repeat(9));
                        (200, json!({ "token": token }).to_string())
                    }
                    url => (200, format!("{{\"asked\":{}}}", json!(url))),
                };
                let mut response = tiny_http::Response::from_string(text).with_status_code(status);
                if status == 302 {
                    let header = tiny_http::Header::from_bytes("Location", "/deals/list").unwrap();
                    response.add_header(header);
                }
                let _ = request.respond(response);
            }
        });
        Self { port, seen }
    }

    fn take(&self) -> Vec<Seen> {
        std::mem::take(&mut *self.seen.lock().unwrap())
    }
}

impl Seen {
    fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }
}

/// A client over stdio.
struct Client {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    next: u64,
}

impl Client {
    /// The program, serving the policies of a directory.
    fn start(stage: &Stage, policies: &Path, token: &str, more: &[&str]) -> Self {
        let mut command = stage.command(&["mcp", "services"]);
        command.args(more).arg("--policies").arg(policies);
        command.arg("--state").arg(stage.state());
        if !token.is_empty() {
            command.env("TED_ENGINE_AUTH_TOKEN", token);
        }
        // A proxy that somebody names gets nothing of what stays on this machine.
        command.env("HTTP_PROXY", "http://127.0.0.1:9");
        let mut child = command
            .stdin(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let mut client = Self {
            stdin: child.stdin.take().unwrap(),
            stdout: BufReader::new(child.stdout.take().unwrap()),
            child,
            next: 0,
        };
        let about = json!({
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        });
        client.ask("initialize", &about);
        let line = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        writeln!(client.stdin, "{line}").unwrap();
        client
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.next += 1;
        let line = json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params});
        writeln!(self.stdin, "{line}").unwrap();
        let mut answer = String::new();
        self.stdout.read_line(&mut answer).unwrap();
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["id"], self.next, "{answer}");
        answer
    }

    fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let params = json!({
            "name": tool, "arguments": arguments,
            "_meta": {"traceparent": format!("00-{}-{}-01", "0a".repeat(16), "0b".repeat(8))},
        });
        self.ask("tools/call", &params)["result"].clone()
    }

    fn text(&mut self, tool: &str, arguments: &Value) -> String {
        let result = self.call(tool, arguments);
        result["content"][0]["text"].as_str().unwrap().to_owned()
    }

    fn read(&mut self, uri: &str) -> Value {
        self.ask("resources/read", &json!({ "uri": uri }))
    }

    /// The JSON that a resource is.
    fn json(&mut self, uri: &str) -> Value {
        let answer = self.read(uri);
        let text = answer["result"]["contents"][0]["text"].as_str();
        serde_json::from_str(text.unwrap_or_else(|| panic!("{answer}"))).unwrap()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The Ted pack as `policy new` writes it, with the service of a test.
fn ted(stage: &Stage, service: &Service) -> std::path::PathBuf {
    let dir = stage.path("ted");
    let mut new = stage.command(&["policy", "new", "--template", "ted"]);
    new.arg(&dir);
    assert_eq!(run(new).code, 0);
    let port = format!("http://127.0.0.1:{}", service.port);
    edit(&dir, |text| text.replace("http://127.0.0.1:48080", &port));
    dir
}

fn edit(policies: &Path, change: impl Fn(String) -> String) {
    let path = policies.join("upstreams.toml");
    let text = fs::read_to_string(&path).unwrap();
    let changed = change(text.clone());
    assert_ne!(text, changed);
    fs::write(&path, changed).unwrap();
}

/// A token that is nobody's.
fn token() -> String {
    format!("tok-{}", "7f3a".repeat(8))
}

#[test]
fn every_tool_of_the_ted_table_reaches_its_route() {
    let (stage, service, token) = (Stage::new(), Service::start(), token());
    let policies = ted(&stage, &service);
    // What a person would approve is allowed here, so that it arrives.
    edit(&policies, |text| {
        text.replace(
            "\ntier = \"governance\"",
            "\ntier = \"governance\"\nmode = \"autonomous\"",
        )
    });
    let mut client = Client::start(&stage, &policies, &token, &[]);
    let rows = table();
    let listed = client.ask("tools/list", &json!({}));
    let listed = listed["result"]["tools"].as_array().unwrap();
    let names: Vec<&str> = listed
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    let wanted: Vec<&str> = rows.iter().map(|row| row.0).collect();
    assert_eq!((names.len(), &names), (18, &wanted));
    for (name, arguments, method, url, body) in rows {
        let result = client.call(name, &arguments);
        assert_ne!(result["isError"], true, "{name}: {result}");
        let text = result["content"][0]["text"].as_str().unwrap();
        assert_eq!(text, format!("{{\n  \"asked\": \"{url}\"\n}}"), "{name}");
        let draft = result["content"][1]["text"].as_str().unwrap_or_default();
        let drafts = [
            "ted_draft_email",
            "ted_draft_generate",
            "ted_calendar_event_create",
            "ted_deal_create",
            "ted_extraction_deadlines",
        ];
        assert_eq!(
            draft.starts_with("This is a draft."),
            drafts.contains(&name),
            "{name}"
        );
        let seen = service.take();
        let [one] = seen.as_slice() else {
            panic!("{name}: {seen:?}")
        };
        assert_eq!(
            (one.method.as_str(), one.url.as_str(), &one.body),
            (method, url, &body)
        );
        let bearer = format!("Bearer {token}");
        assert_eq!(one.header("authorization"), Some(bearer.as_str()), "{name}");
        assert_eq!(one.header("x-copilot-bridge-depth"), Some("1"), "{name}");
        let trace = format!("00-{}-{}-01", "0a".repeat(16), "0b".repeat(8));
        assert_eq!(one.header("traceparent"), Some(trace.as_str()), "{name}");
    }
    let record = stage.record();
    let calls: Vec<&Value> = record
        .iter()
        .filter(|line| line["kind"] == "mcp_tool_call")
        .collect();
    assert_eq!(calls.len(), 36, "each call, and what came of it");
    let brief = calls
        .iter()
        .find(|line| line["tool"] == "ted-ted_morning_brief")
        .unwrap();
    assert_eq!(brief["detail"]["entity_context"], "all");
    assert_eq!(brief["detail"]["provider_used"], "ted");
    assert!(!Value::Array(record).to_string().contains(&token));
}

/// Each tool, a call of it, and what the service sees: R-003-09…11.
fn table() -> Vec<(&'static str, Value, &'static str, &'static str, Value)> {
    let mail = json!({
        "profile_id": "olumie", "to": ["a@example.com"], "subject": "Hello", "body_html": "<p>x</p>",
    });
    let event = json!({
        "profile_id": "everest", "subject": "Call", "start": "2026-12-01T09:00:00Z", "end": "2026-12-01T10:00:00Z",
    });
    let null = Value::Null;
    vec![
        ("ted_status", json!({}), "GET", "/status", null.clone()),
        ("ted_doctor", json!({}), "GET", "/doctor", null.clone()),
        (
            "ted_deals_list",
            json!({"entity_context": "olumie", "limit": 5}),
            "GET",
            "/deals/list?entity_context=olumie&limit=5&include_personal=false&status=active",
            null.clone(),
        ),
        (
            "ted_deal_detail",
            json!({"deal_id": "d 7?"}),
            "GET",
            "/deals/d%207%3F?entity_context=all",
            null.clone(),
        ),
        (
            "ted_deal_timeline",
            json!({"deal_id": "d7"}),
            "GET",
            "/deals/d7/timeline?entity_context=all&limit=25",
            null.clone(),
        ),
        (
            "ted_morning_brief",
            json!({}),
            "GET",
            "/reporting/morning-brief?entity_context=all&include_personal=false",
            null.clone(),
        ),
        (
            "ted_eod_digest",
            json!({"entity_context": "everest"}),
            "GET",
            "/reporting/eod-digest?entity_context=everest&include_personal=false",
            null.clone(),
        ),
        (
            "ted_mail_list",
            json!({"profile_id": "olumie"}),
            "GET",
            "/graph/olumie/mail/list?folder=inbox&include_personal=false&limit=25",
            null.clone(),
        ),
        (
            "ted_calendar_list",
            json!({"profile_id": "everest", "days": 3}),
            "GET",
            "/graph/everest/calendar/list?days=3&include_personal=false",
            null.clone(),
        ),
        (
            "ted_triage_list",
            json!({}),
            "GET",
            "/triage/list?entity_context=all&include_personal=false&limit=25",
            null,
        ),
        (
            "ted_draft_email",
            mail,
            "POST",
            "/graph/olumie/mail/draft/create",
            json!({"to": ["a@example.com"], "subject": "Hello", "body_html": "<p>x</p>"}),
        ),
        (
            "ted_draft_generate",
            json!({"profile_id": "olumie"}),
            "POST",
            "/graph/olumie/drafts/generate",
            json!({"max_drafts": 5, "include_personal": false}),
        ),
        (
            "ted_calendar_event_create",
            event,
            "POST",
            "/graph/everest/calendar/event/create",
            json!({"subject": "Call", "start": "2026-12-01T09:00:00Z", "end": "2026-12-01T10:00:00Z"}),
        ),
        (
            "ted_deal_create",
            json!({"deal_name": "Oak", "entity": "everest"}),
            "POST",
            "/deals/create",
            json!({"deal_name": "Oak", "entity": "everest"}),
        ),
        (
            "ted_extraction_deadlines",
            json!({"text": "due on Friday"}),
            "POST",
            "/extraction/deadlines",
            json!({"text": "due on Friday", "entity_context": "all"}),
        ),
        (
            "ted_mail_move",
            json!({"profile_id": "olumie", "message_id": "m=1", "destination_folder": "archive"}),
            "POST",
            "/graph/olumie/mail/m%3D1/move",
            json!({"destination_folder": "archive"}),
        ),
        (
            "ted_triage_classify",
            json!({"item_id": "i1", "classification": "deal", "entity_context": "olumie"}),
            "POST",
            "/triage/classify",
            json!({"item_id": "i1", "classification": "deal", "entity_context": "olumie"}),
        ),
        (
            "ted_filing_suggestion",
            json!({"document_id": "doc"}),
            "POST",
            "/filing/suggest",
            json!({"document_id": "doc", "entity_context": "all"}),
        ),
    ]
}

#[test]
fn what_a_person_approves_reaches_no_route_unasked() {
    let (stage, service) = (Stage::new(), Service::start());
    let policies = ted(&stage, &service);
    let mut client = Client::start(&stage, &policies, &token(), &["--name", "ted"]);
    for (name, arguments, ..) in table().into_iter().skip(15) {
        let result = client.call(name, &arguments);
        assert_eq!(result["isError"], true, "{result}");
        assert_eq!(result["structuredContent"]["blocked"], true);
        assert_eq!(
            result["structuredContent"]["reason_code"],
            "user:ask-governance"
        );
    }
    let personal = client.call("ted_morning_brief", &json!({"include_personal": true}));
    assert_eq!(
        personal["structuredContent"]["reason_code"],
        "user:ask-ted-personal"
    );
    assert_eq!(service.take(), []);
    // Nobody is served whom nobody named.
    let mut odd = stage.command(&["mcp", "services", "--name", "nobody", "--policies"]);
    odd.arg(&policies).arg("--state").arg(stage.state());
    let answer = run(odd);
    assert_ne!(answer.code, 0);
    assert!(
        answer.errors.contains("no service is called `nobody`"),
        "{answer:?}"
    );
}

#[test]
fn a_call_leaves_neither_its_route_nor_its_schema() {
    let (stage, service, token) = (Stage::new(), Service::start(), token());
    let policies = ted(&stage, &service);
    let mut client = Client::start(&stage, &policies, &token, &[]);
    for (tool, arguments, expected) in [
        (
            "ted_deal_detail",
            json!({"deal_id": ".."}),
            "would leave its part of the path",
        ),
        (
            "ted_deal_detail",
            json!({"deal_id": "a/../../status"}),
            "would leave its part",
        ),
        (
            "ted_deal_detail",
            json!({"deal_id": "a\u{0}"}),
            "would leave its part",
        ),
        ("ted_deal_detail", json!({"deal_id": ""}), "`deal_id`: "),
        (
            "ted_deal_detail",
            json!({}),
            "\"deal_id\" is a required property",
        ),
        (
            "ted_deals_list",
            json!({"entity_context": "acme"}),
            "`entity_context`: ",
        ),
        ("ted_deals_list", json!({"admin": true}), "admin"),
        (
            "ted_mail_list",
            json!({"profile_id": "olumie/../everest"}),
            "`profile_id`: ",
        ),
    ] {
        let result = client.call(tool, &arguments);
        assert_eq!(result["isError"], true, "{result}");
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(text.contains(expected), "{text}");
    }
    assert_eq!(service.take(), []);
    // What a resource's address says is no route either.
    for uri in [
        "ted://deals/..",
        "ted://deals/%2e%2e",
        "ted://deals/a%2fb",
        "ted://deals/a%00",
    ] {
        let answer = client.read(uri);
        assert!(
            answer["error"]["message"]
                .as_str()
                .unwrap()
                .contains("would leave"),
            "{answer}"
        );
    }
    for uri in [
        "ted://deals/a/b",
        "ted://config/secrets",
        "file:///etc/passwd",
        "ted://deals/",
    ] {
        let answer = client.read(uri);
        assert!(
            answer["error"]["message"]
                .as_str()
                .unwrap()
                .contains("no resource"),
            "{answer}"
        );
    }
    assert_eq!(service.take(), []);
}

#[test]
fn what_a_service_answers_is_bounded_and_holds_no_secret() {
    let (stage, service, token) = (Stage::new(), Service::start(), token());
    let policies = ted(&stage, &service);
    edit(&policies, |text| {
        text.replace("timeout_seconds = 60", "timeout_seconds = 5")
    });
    let mut client = Client::start(&stage, &policies, &token, &[]);
    for (id, expected) in [
        (
            "teapot",
            "answered 418 I'm a teapot:\nno tea for Bearer [secret]",
        ),
        ("elsewhere", "service `ted` answered 302 Found"),
        ("large", "service `ted` answered with more than 4 MiB"),
    ] {
        let answer = client.read(&format!("ted://deals/{id}"));
        let text = answer["error"]["message"].as_str().unwrap();
        assert!(text.contains(expected), "{text}");
    }
    // The redirect was not followed.
    assert!(service.take().iter().all(|seen| seen.url != "/deals/list"));
    let answer = client.read("ted://deals/echo");
    assert_eq!(
        answer["result"]["contents"][0]["text"],
        "you are Bearer [secret]"
    );
    let answer = client.read("ted://deals/secret").to_string();
    assert!(
        answer.contains("redacted") && !answer.contains("ghp_"),
        "{answer}"
    );
    drop(client);
    assert!(!Value::Array(stage.record()).to_string().contains(&token));
    // Without a token nothing is sent.
    let mut client = Client::start(&stage, &policies, "", &[]);
    service.take();
    assert_eq!(
        client.text("ted_status", &json!({})),
        "none of these variables is set: `TED_ENGINE_AUTH_TOKEN`"
    );
    assert_eq!(service.take(), []);
    drop(client);
    // Nobody answers.
    let port = format!("127.0.0.1:{}", service.port);
    edit(&policies, |text| text.replace(&port, "127.0.0.1:1"));
    let mut client = Client::start(&stage, &policies, &token, &[]);
    let text = client.text("ted_status", &json!({}));
    assert!(
        text.starts_with("service `ted` cannot be reached: "),
        "{text}"
    );
}

#[test]
fn resources_are_listed_and_read_without_a_person() {
    let (stage, service) = (Stage::new(), Service::start());
    let policies = ted(&stage, &service);
    stage.write("notes/plan.md", "the plan\n");
    stage.write("notes/other.md", "private\n");
    let (plan, link) = (stage.path("notes/plan.md"), stage.path("notes/link.md"));
    std::os::unix::fs::symlink(stage.path("notes/other.md"), &link).unwrap();
    edit(&policies, |text| {
        let resource = |uri: &str, file: &Path| {
            let file = file.display();
            format!(
                "\n[[service.resource]]\nuri = \"{uri}\"\nname = \"x\"\nmedia_type = \"text/markdown\"\nfile = \"{file}\"\n"
            )
        };
        text + &resource("ted://plan", &plan) + &resource("ted://link", &link)
    });
    let mut client = Client::start(&stage, &policies, &token(), &[]);
    let list = |answer: &Value, list: &str, key: &str| -> Vec<String> {
        let all = answer["result"][list].as_array().unwrap().iter();
        all.map(|one| one[key].as_str().unwrap().to_owned())
            .collect()
    };
    let all = list(
        &client.ask("resources/list", &json!({})),
        "resources",
        "uri",
    );
    for uri in [
        "ted://config/operator_profile",
        "ted://config/hard_bans",
        "ted://config/autonomy_ladder",
        "ted://config/brief_config",
        "ted://config/draft_style",
        "ted://governance/audit/recent",
        "ted://plan",
        "bridge://policies",
        "bridge://policies/autonomy.cedar",
        "bridge://limits",
        "bridge://autonomy",
        "bridge://config",
        "bridge://audit/recent",
    ] {
        assert!(all.iter().any(|known| known == uri), "{uri}: {all:?}");
    }
    let forms = client.ask("resources/templates/list", &json!({}));
    assert_eq!(
        list(&forms, "resourceTemplates", "uriTemplate"),
        ["ted://deals/{deal_id}", "bridge://policies/{+file}"]
    );
    // Whatever is listed can be read.
    for uri in all.iter().filter(|uri| *uri != "ted://link") {
        let answer = client.read(uri);
        let content = &answer["result"]["contents"][0];
        assert_eq!(content["uri"], **uri, "{answer}");
    }
    let urls: Vec<String> = service.take().into_iter().map(|seen| seen.url).collect();
    assert_eq!(
        urls,
        [
            "/config/operator_profile",
            "/config/hard_bans",
            "/config/autonomy_ladder",
            "/config/brief_config",
            "/config/draft_style",
            "/governance/audit/recent",
        ]
    );
    let plan = client.read("ted://plan")["result"]["contents"][0].clone();
    assert_eq!(
        (&plan["text"], &plan["mimeType"]),
        (&json!("the plan\n"), &json!("text/markdown"))
    );
    let link = client.read("ted://link");
    assert!(
        link["error"]["message"]
            .as_str()
            .unwrap()
            .contains("leads through a link"),
        "{link}"
    );
    // A link that an agent puts into the place of the file leads nowhere.
    fs::remove_file(stage.path("notes/plan.md")).unwrap();
    std::os::unix::fs::symlink(stage.path("notes/other.md"), stage.path("notes/plan.md")).unwrap();
    let answer = client.read("ted://plan").to_string();
    assert!(
        answer.contains("leads through a link") && !answer.contains("private"),
        "{answer}"
    );
}

#[test]
fn the_bridge_tells_what_governs_an_agent() {
    let (stage, service) = (Stage::new(), Service::start());
    let policies = ted(&stage, &service);
    edit(&policies, |text| {
        text + "\n[[server]]\nname = \"tracker\"\ntrust = \"trusted_read\"\n[[server.tool]]\nname = \"search\"\naccess = \"read_only\"\n"
    });
    let mut client = Client::start(&stage, &policies, &token(), &[]);
    let autonomy = client.json("bridge://autonomy");
    let rows = autonomy["tools"].as_array().unwrap();
    let row = |name: &str| rows.iter().find(|row| row["tool"] == name).unwrap();
    assert_eq!(rows.len(), 20);
    for (name, now, draft, policy) in [
        ("ted_status", "allow", false, "user:mcp-tools"),
        ("ted_draft_email", "allow", true, "user:served-draft"),
        ("ted_mail_move", "ask", false, "user:ask-governance"),
        ("search", "allow", false, "user:mcp-tools"),
        ("*", "ask", false, "user:ask-upstream"),
    ] {
        let row = row(name);
        assert_eq!(
            (&row["now"], &row["draft"]),
            (&json!(now), &json!(draft)),
            "{row}"
        );
        assert_eq!(row["policies"][0], policy, "{row}");
    }
    assert_eq!(client.json("bridge://limits")["depth"], 3);
    assert_eq!(client.json("bridge://config")["limits.depth"]["value"], 3);
    let policies_now = client.json("bridge://policies");
    let ids = policies_now["policies"].as_array().unwrap();
    assert!(
        ids.iter()
            .any(|policy| policy["id"] == "user:ask-ted-personal"),
        "{policies_now}"
    );
    let text = client.read("bridge://policies/ted.cedar");
    let written = fs::read_to_string(policies.join("ted.cedar")).unwrap();
    assert_eq!(text["result"]["contents"][0]["text"], written);
    for uri in [
        "bridge://policies/../state/key",
        "bridge://policies/tests/ted.toml",
        "bridge://nothing",
    ] {
        let answer = client.read(uri);
        assert!(answer["error"].is_object(), "{answer}");
    }
    for _ in 0..60 {
        client.call("ted_status", &json!({}));
    }
    let recent = client.json("bridge://audit/recent");
    let lines = recent.as_array().unwrap();
    assert_eq!(lines.len(), 50);
    let numbers: Vec<u64> = lines
        .iter()
        .map(|line| line["seq"].as_u64().unwrap())
        .collect();
    assert!(
        numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]),
        "{numbers:?}"
    );
    // Each read is in the record.
    let record = stage.record();
    let reads = record
        .iter()
        .filter(|line| line["tool"] == "bridge-resources/read");
    assert!(reads.count() >= 7, "{record:?}");
}

#[test]
fn a_change_of_upstreams_counts_while_the_server_runs() {
    let (stage, service) = (Stage::new(), Service::start());
    let policies = ted(&stage, &service);
    let mut client = Client::start(&stage, &policies, &token(), &[]);
    assert_ne!(client.call("ted_status", &json!({}))["isError"], true);
    edit(&policies, |text| {
        text.replacen(
            "\ntier = \"read_only\"\n",
            "\ntier = \"read_only\"\nmode = \"never\"\n",
            1,
        )
    });
    let since = Instant::now();
    loop {
        let result = client.call("ted_status", &json!({}));
        if result["structuredContent"]["reason_code"] == "user:mode-forbids" {
            break;
        }
        assert!(since.elapsed() < Duration::from_secs(20), "{result}");
        std::thread::sleep(Duration::from_millis(200));
    }
    // A broken file lets nothing through.
    edit(&policies, |text| {
        text.replace("\nmode = \"never\"", "\nmode = \"nver\"")
    });
    let since = Instant::now();
    loop {
        let result = client.call("ted_deals_list", &json!({}));
        if result["isError"] == true {
            break;
        }
        assert!(since.elapsed() < Duration::from_secs(20), "{result}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn mistakes_in_services_are_shown_where_they_stand() {
    let stage = Stage::new();
    let dir = stage.policies();
    let path = dir.join("upstreams.toml");
    let good = concat!(
        "format = 1\n",
        "[[service]]\n",
        "name = \"orders\"\n",
        "url = \"http://127.0.0.1:8080\"\n",
        "[service.auth]\n",
        "variables = [\"ORDERS_TOKEN\"]\n",
        "[[service.tool]]\n",
        "name = \"order_cancel\"\n",
        "description = \"Cancel an order.\"\n",
        "method = \"POST\"\n",
        "route = \"/orders/{order_id}/cancel\"\n",
        "tier = \"governance\"\n",
        "required = [\"order_id\"]\n",
        "inputs.order_id = { type = \"string\" }\n",
        "inputs.reason = { type = \"string\", enum = [\"late\", \"wrong\"], default = \"late\" }\n",
        "[[service.resource]]\n",
        "uri = \"orders://orders/{order_id}\"\n",
        "name = \"One order\"\n",
        "route = \"/orders/{order_id}\"\n",
    );
    let check = |text: &str| {
        fs::write(&path, text).unwrap();
        let mut check = stage.command(&["policy", "check"]);
        check.arg(&dir);
        run(check)
    };
    let answer = check(good);
    assert_eq!(answer.code, 0, "{answer:?}");
    for (from, to, line, expected) in [
        (
            "\"orders\"",
            "\"or ders\"",
            3,
            "`or ders` is no name that MCP clients take",
        ),
        (
            "127.0.0.1",
            "x.example",
            4,
            "plain `http` is for this machine only",
        ),
        ("//127", "//me:pw@127", 4, "an address holds no secret"),
        (
            "ORDERS_TOKEN",
            "Bearer x",
            6,
            "`Bearer x` is no name of a variable",
        ),
        ("variables", "variable", 6, "unknown key `variable`"),
        ("\"order_cancel\"", "\"\"", 8, "`name` is empty"),
        ("POST", "post", 10, "`post` is no value of `method`"),
        (
            "{order_id}/cancel",
            "{id}/cancel",
            11,
            "there is no input for `{id}`",
        ),
        (
            "/orders/{order_id}/cancel",
            "orders/cancel",
            11,
            "it begins with `/`",
        ),
        (
            "{order_id}/cancel",
            "{order_id}/../x",
            11,
            "`..` is no part of a path",
        ),
        ("governance", "admin", 12, "`admin` is no value of `tier`"),
        (
            "[\"order_id\"]",
            "[]",
            11,
            "the input for `{order_id}` has to be in `required`",
        ),
        (
            "[\"order_id\"]",
            "[\"order_id\", \"x\"]",
            13,
            "there is no input `x`",
        ),
        (
            "order_id = { type = \"string\"",
            "order_id = { type = \"integer\"",
            11,
            "the input for `{order_id}` has to be of type `string`",
        ),
        (
            "type = \"string\", enum",
            "type = \"text\", enum",
            15,
            "this is no JSON Schema",
        ),
        (
            "default = \"late\"",
            "default = \"soon\"",
            15,
            "its default is wrong",
        ),
        (
            "orders://orders",
            "orders:orders",
            17,
            "it has a scheme and `://`",
        ),
        (
            "orders://orders",
            "bridge://orders",
            17,
            "`bridge://` is this program's own",
        ),
        (
            "\"/orders/{order_id}\"",
            "\"/orders\"",
            19,
            "`uri` has not the same parameters",
        ),
        (
            "route = \"/orders/{order_id}\"",
            "file = \"orders.md\"",
            19,
            "a file is named by its absolute path",
        ),
        (
            "tier = \"governance\"",
            "tier = \"governance\"\nentity = \"customer\"",
            13,
            "`customer` is no input that is a text",
        ),
    ] {
        assert!(good.contains(from), "{from}");
        let answer = check(&good.replacen(from, to, 1));
        assert_eq!(answer.code, 3, "{to}: {answer:?}");
        assert!(answer.text.contains(expected), "{to}: {}", answer.text);
        assert!(
            answer.text.contains(&format!("upstreams.toml:{line}:")),
            "{to}: {}",
            answer.text
        );
    }
    let (head, service) = good.split_at("format = 1\n".len());
    let twice = check(&format!("{head}{service}{service}"));
    for expected in [
        "another service `orders`",
        "another tool `order_cancel`",
        "another resource",
    ] {
        assert!(twice.text.contains(expected), "{}", twice.text);
    }
    // A workspace brings no service along.
    fs::write(&path, "format = 1\n").unwrap();
    stage.write("ws/.copilot-bridge/policies/upstreams.toml", good);
    let mut check = stage.command(&["policy", "check", "--policies"]);
    check.arg(&dir);
    let answer = run(check);
    let text = format!("{}{}", answer.text, answer.errors);
    assert!(
        text.contains("may be set by the base layer only"),
        "{answer:?}"
    );
}
