//! Sinks that speak OTLP, as the protocol's own messages have it.

use std::fs;

use opentelemetry_proto::tonic::collector::logs::v1::{
    ExportLogsPartialSuccess, ExportLogsServiceRequest, ExportLogsServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use prost::Message;
use serde_json::Value;

use super::record::{self, Record, recorded};
use super::server::{Reply, Server};
use super::ship;
use crate::program::{Answer, Stage, run};

fn sent(stage: &Stage, server: &Server, words: &[&str]) -> Answer {
    let mut command = ship(stage, &["--otlp", &server.url(), "--format", "json"]);
    command.args(words);
    run(command)
}

fn ok() -> Reply {
    Reply::status(200).header("Content-Type", "application/x-protobuf")
}

fn logs(server: &Server) -> Vec<LogRecord> {
    server
        .requests()
        .iter()
        .flat_map(|one| {
            ExportLogsServiceRequest::decode(&*one.body)
                .unwrap()
                .resource_logs
        })
        .flat_map(|one| one.scope_logs)
        .flat_map(|one| one.log_records)
        .collect()
}

fn get(attributes: &[KeyValue], key: &str) -> String {
    let found = attributes.iter().find(|one| one.key == key);
    match found.and_then(|one| one.value.clone()?.value) {
        Some(Any::StringValue(text)) => text,
        Some(Any::IntValue(number)) => number.to_string(),
        other => panic!("{key}: {other:?}"),
    }
}

#[test]
fn a_collector_gets_each_line_as_a_log_record() {
    let stage = recorded();
    let mut record = Record::of(&stage);
    record.add(20);
    let server = Server::new(|_| ok());
    for words in [&["--batch-lines", "9"][..], &["--gzip"]] {
        let answer = sent(&stage, &server, words);
        assert_eq!(answer.code, 0, "{answer:?}");
    }
    let first = &server.requests()[0];
    assert_eq!(first.path, "/v1/logs");
    assert_eq!(first.header("content-type"), "application/x-protobuf");
    let request = ExportLogsServiceRequest::decode(&*first.body).unwrap();
    let resource = request.resource_logs[0].resource.clone().unwrap();
    let text = record::text(&stage);
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for (key, field) in [("host.name", "host"), ("service.version", "engine_version")] {
        assert_eq!(get(&resource.attributes, key), lines[0][field]);
    }
    assert_eq!(get(&resource.attributes, "service.name"), "copilot-bridge");
    let logs = logs(&server);
    assert_eq!(logs.len(), 23);
    for ((log, line), text) in logs.iter().zip(&lines).zip(text.lines()) {
        let of = |key: &str| get(&log.attributes, key);
        assert_eq!(of("log.record.uid"), record::id(text.as_bytes()));
        assert_eq!(of("copilot_bridge.record.seq"), line["seq"].to_string());
        assert_eq!(of("gen_ai.conversation.id"), "session-1");
        assert_eq!(of("gen_ai.tool.name"), line["tool"]);
        assert_eq!(of("copilot_bridge.decision"), line["decision"]);
        assert_eq!(of("process.pid"), line["pid"].to_string());
        assert!(log.observed_time_unix_nano >= log.time_unix_nano);
    }
    assert_eq!(logs[1].severity_text, "WARN");
    // The ids and `prev` are a chain of their own.
    for pair in logs.windows(2) {
        assert_eq!(
            get(&pair[1].attributes, "copilot_bridge.record.prev"),
            get(&pair[0].attributes, "copilot_bridge.record.id")
        );
    }
}

#[test]
fn lines_that_go_along_as_they_are_can_be_verified() {
    let stage = recorded();
    let server = Server::new(|_| ok());
    assert_eq!(sent(&stage, &server, &["--original"]).code, 0);
    let text: String = logs(&server)
        .iter()
        .map(|log| get(&log.attributes, "log.record.original") + "\n")
        .collect();
    assert_eq!(text, record::text(&stage));
    let copy = stage.path("copy.jsonl");
    fs::write(&copy, text).unwrap();
    let mut verify = stage.command(&["audit", "verify"]);
    verify.arg(&copy);
    assert_eq!(run(verify).code, 0);
}

#[test]
fn what_a_collector_does_not_want_is_an_error_once_and_not_repeated() {
    let stage = recorded();
    let secret = format!("t0ken-{}", "y3".repeat(9));
    let partial = |rejected: i64, message: &str| ExportLogsServiceResponse {
        partial_success: Some(ExportLogsPartialSuccess {
            rejected_log_records: rejected,
            error_message: message.to_owned(),
        }),
    };
    let long = "long ".repeat(100);
    for (answer, json, rejected, said) in [
        (
            partial(2, "too old\u{1b}[31m"),
            false,
            2,
            "does not want 2 lines: too old\u{fffd}[31m",
        ),
        (partial(1, ""), true, 1, "does not want 1 line\n"),
        (
            partial(1, &format!("x {secret} y")),
            false,
            1,
            "a header's value is in it",
        ),
        (partial(0, "be slower"), true, 0, "says: be slower\n"),
        (partial(0, &long), false, 0, "says: long long"),
    ] {
        let server = Server::new(move |_| {
            if json {
                Reply::status(200)
                    .header("Content-Type", "application/json")
                    .body(serde_json::to_vec(&answer).unwrap())
            } else {
                ok().body(answer.encode_to_vec())
            }
        });
        let mut command = ship(&stage, &["--otlp", &server.url(), "--format", "json"]);
        command.args(["--header-env", "Authorization=SHIP_TOKEN"]);
        command.env("SHIP_TOKEN", format!("Bearer {secret}"));
        let answer = run(command);
        assert_eq!(answer.code, i32::from(rejected > 0), "{answer:?}");
        assert_eq!(answer.json()["rejected"], rejected);
        assert!(answer.errors.contains(said), "{said}: {answer:?}");
        assert!(!answer.errors.contains(&secret), "{answer:?}");
        assert!(!answer.errors.contains(&long), "{answer:?}");
        let answer = sent(&stage, &server, &[]);
        assert_eq!((answer.code, &answer.json()["lines"]), (0, &0.into()));
        assert_eq!(server.requests().len(), 1);
    }
}

#[test]
fn what_is_no_collector_acknowledges_nothing() {
    let stage = recorded();
    for page in [
        "<html><body>welcome</body></html>",
        "{\"partialSuccess\": 7}",
    ] {
        let server = Server::new(move |_| {
            Reply::status(200)
                .header("Content-Type", "application/json")
                .body(page)
        });
        let answer = sent(&stage, &server, &["--attempts", "1"]);
        assert_eq!(answer.code, 1, "{answer:?}");
        assert!(answer.errors.contains("but not as OTLP does"), "{answer:?}");
    }
    let server = Server::new(|_| Reply::status(200).body("<html><body>welcome</body></html>"));
    assert_eq!(sent(&stage, &server, &["--attempts", "1"]).code, 1);
    assert!(
        !super::positions(&stage)
            .iter()
            .any(|path| path.extension().is_some_and(|one| one == "json"))
    );
}
