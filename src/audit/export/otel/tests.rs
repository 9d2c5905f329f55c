use super::*;
use crate::audit::export::id;
use serde_json::json;

fn options(original: bool) -> Options {
    Options {
        observed: "2026-01-02T00:00:00Z".parse().unwrap(),
        original,
    }
}

fn line() -> Value {
    json!({
        "v": 1, "seq": 7, "ts": "2026-01-02T03:04:05.000006Z", "mono": u64::MAX, "boot": "b", "kind": "tool_use",
        "host": "h", "uid": 1000, "pid": 42, "event": "pre_tool_use", "dialect": "copilot",
        "session": "s", "call": "c", "agent": null, "parent": null, "depth": 0, "entity": null,
        "cwd": "/w", "tool": "bash", "args_hmac": {"hmac": "x", "len": 3},
        "args_redacted": {"command": "sudo ls"}, "requests": [{"action": "shell", "n": 1.5}],
        "decision": "deny", "reasons": [{"id": "default:one", "file": "f", "line": 1}],
        "would_decide": "deny", "obligations": [], "redactions": [], "policy_digest": "d",
        "engine_version": "0.0.1", "latency_us": 9, "error_class": null,
        "trace": {
            "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tracestate": "a=b",
        },
        "detail": {}, "prev": "p",
    })
}

fn made(lines: &[&[u8]], original: bool) -> ExportLogsServiceRequest {
    let ids: Vec<String> = lines.iter().map(|line| id(line)).collect();
    let lines = lines.iter().zip(&ids).map(|(bytes, id)| Line {
        id,
        bytes,
        length: bytes.len() as u64,
    });
    request(lines, options(original))
}

fn log(line: &Value) -> LogRecord {
    let request = made(&[line.to_string().as_bytes()], false);
    request.resource_logs[0].scope_logs[0].log_records[0].clone()
}

fn get(attributes: &[KeyValue], key: &str) -> Option<Any> {
    let mut found = attributes.iter().filter(|one| one.key == key);
    let value = found.next()?.value.clone()?.value;
    assert!(found.next().is_none(), "{key} is there twice");
    value
}

fn words(text: &str) -> Option<Any> {
    Some(Any::StringValue(text.to_owned()))
}

#[test]
fn every_field_of_a_line_has_its_attribute() {
    let log = log(&line());
    let of = |key: &str| get(&log.attributes, key);
    assert_eq!(log.time_unix_nano, 1_767_323_045_000_006_000);
    assert_eq!(log.observed_time_unix_nano, 1_767_312_000_000_000_000);
    assert_eq!(log.event_name, "copilot_bridge.tool_use");
    assert_eq!(
        log.body.clone().unwrap().value,
        words("deny pre_tool_use of bash: default:one")
    );
    for (key, value) in [
        ("gen_ai.operation.name", "execute_tool"),
        ("gen_ai.tool.name", "bash"),
        ("gen_ai.tool.call.id", "c"),
        ("gen_ai.conversation.id", "s"),
        ("security_rule.name", "default:one"),
        ("user.id", "1000"),
        ("copilot_bridge.decision", "deny"),
        ("copilot_bridge.record.prev", "p"),
        ("copilot_bridge.tracestate", "a=b"),
        ("copilot_bridge.mono", "18446744073709551615"),
        ("log.record.uid", &id(line().to_string().as_bytes())),
        (
            "copilot_bridge.record.id",
            &id(line().to_string().as_bytes()),
        ),
    ] {
        assert_eq!(of(key), words(value), "{key}");
    }
    assert_eq!(of("process.pid"), Some(Any::IntValue(42)));
    assert_eq!(of("copilot_bridge.record.seq"), Some(Any::IntValue(7)));
    for none in ["gen_ai.agent.id", "error.type", "copilot_bridge.entity"] {
        assert_eq!(of(none), None, "{none}");
    }
    let Some(Any::KvlistValue(arguments)) = of("gen_ai.tool.call.arguments") else {
        panic!("no arguments");
    };
    assert_eq!(get(&arguments.values, "command"), words("sudo ls"));
    assert_eq!(
        log.trace_id,
        HEXLOWER
            .decode(b"0af7651916cd43dd8448eb211c80319c")
            .unwrap()
    );
    assert_eq!(log.span_id, HEXLOWER.decode(b"b7ad6b7169203331").unwrap());
    assert_eq!(log.flags, 1);
}

#[test]
fn no_field_is_lost() {
    let line = line();
    let log = log(&line);
    let elsewhere = ["ts", "host", "engine_version", "trace", "uid"];
    for (name, value) in line.as_object().unwrap() {
        if value.is_null() || elsewhere.contains(&name.as_str()) {
            continue;
        }
        let own = format!("copilot_bridge.{name}");
        let key = conventional(name).unwrap_or(&own);
        assert!(log.attributes.iter().any(|one| one.key == key), "{name}");
    }
}

#[test]
fn how_severe_a_line_is_follows_from_decision_and_fault() {
    for (kind, decision, fault, severe) in [
        ("tool_use", "allow", Value::Null, SeverityNumber::Info),
        ("tool_use", "ask", Value::Null, SeverityNumber::Info2),
        ("tool_use", "deny", Value::Null, SeverityNumber::Warn),
        ("tool_use", "deny", json!("deadline"), SeverityNumber::Error),
        ("fault", "deny", json!("input_error"), SeverityNumber::Error),
        ("recovered", "deny", Value::Null, SeverityNumber::Warn),
        ("removed", "deny", Value::Null, SeverityNumber::Info),
        ("removed", "deny", Value::Null, SeverityNumber::Info),
        ("of tomorrow", "allow", Value::Null, SeverityNumber::Info),
    ] {
        let mut line = line();
        line["kind"] = kind.into();
        line["decision"] = decision.into();
        line["error_class"] = fault;
        assert_eq!(log(&line).severity_number(), severe, "{kind} {decision}");
    }
}

#[test]
fn a_hidden_id_is_no_id_of_the_conventions() {
    let mut line = line();
    line["session"] = json!({"hmac": "x", "len": 600});
    let log = log(&line);
    assert_eq!(get(&log.attributes, "gen_ai.conversation.id"), None);
    assert!(matches!(
        get(&log.attributes, "copilot_bridge.session"),
        Some(Any::KvlistValue(_))
    ));
}

#[test]
fn a_trace_that_is_none_is_left_out() {
    for none in [
        "",
        "00",
        "00-x-y-z",
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b71692033-01",
    ] {
        let mut line = line();
        line["trace"]["traceparent"] = none.into();
        let log = log(&line);
        assert!(log.trace_id.is_empty() && log.span_id.is_empty(), "{none}");
    }
}

#[test]
fn what_is_no_line_is_told_with_its_id() {
    for bytes in [&b"torn {"[..], b"", b"[1]", b"\xff\xfe", b"null"] {
        let request = made(&[bytes], true);
        let log = &request.resource_logs[0].scope_logs[0].log_records[0];
        assert_eq!(get(&log.attributes, "log.record.uid"), words(&id(bytes)));
        assert_eq!(log.event_name, "copilot_bridge.unread");
    }
    let long = Line {
        id: "i",
        bytes: b"{}",
        length: 70_000,
    };
    let request = request([long], options(true));
    let log = &request.resource_logs[0].scope_logs[0].log_records[0];
    assert_eq!(get(&log.attributes, "log.record.original"), None);
    assert_eq!(
        get(&log.attributes, "copilot_bridge.record.length"),
        Some(Any::IntValue(70_000))
    );
}

#[test]
fn lines_of_one_origin_share_a_resource_and_keep_their_order() {
    let of = |host: &str, seq: u64| {
        let mut line = line();
        line["host"] = host.into();
        line["seq"] = seq.into();
        line.to_string()
    };
    let lines = [of("a", 1), of("a", 2), of("b", 3), of("a", 4)];
    let lines: Vec<&[u8]> = lines.iter().map(String::as_bytes).collect();
    let request = made(&lines, false);
    let hosts: Vec<_> = request
        .resource_logs
        .iter()
        .map(|one| {
            (
                get(&one.resource.as_ref().unwrap().attributes, "host.name").unwrap(),
                one.scope_logs[0].log_records.len(),
            )
        })
        .collect();
    let host = |name: &str| Any::StringValue(name.to_owned());
    assert_eq!(hosts, [(host("a"), 2), (host("b"), 1), (host("a"), 1)]);
}

#[test]
fn both_encodings_say_the_same() {
    let text = line().to_string();
    let request = made(&[text.as_bytes(), b"torn"], true);
    let binary = ExportLogsServiceRequest::decode(&*protobuf(&request)).unwrap();
    assert_eq!(binary, request);
    let json = json(&request).unwrap();
    assert!(!json.contains(&b'\n'));
    let value: Value = serde_json::from_slice(&json).unwrap();
    let log = &value["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0];
    assert_eq!(log["timeUnixNano"], "1767323045000006000");
    assert_eq!(log["traceId"], "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(log["severityNumber"], 13);
    let read: ExportLogsServiceRequest = serde_json::from_slice(&json).unwrap();
    assert_eq!(read, request);
    let log = &request.resource_logs[0].scope_logs[0].log_records[0];
    assert_eq!(get(&log.attributes, "log.record.original"), words(&text));
}
