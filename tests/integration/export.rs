//! `audit export`: the record in the forms of other systems.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::program::{Answer, Stage, run};
use super::samples;

fn export(stage: &Stage, words: &[&str], from: &Path) -> Answer {
    let mut command = stage.command(&["audit", "export", "--format"]);
    command.args(words).arg(from);
    run(command)
}

fn events(answer: &Answer) -> Vec<Value> {
    assert_eq!(answer.code, 0, "{answer:?}");
    let lines = answer.text.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The lines of the samples.
fn lines() -> Vec<String> {
    let days = ["2026-03-02", "2026-03-03"];
    let text = days
        .map(|day| fs::read_to_string(samples::dir().join(format!("audit-{day}.jsonl"))).unwrap());
    text.concat().lines().map(str::to_owned).collect()
}

#[test]
fn every_line_is_an_event_of_ocsf_with_its_id_and_all_that_it_says() {
    let stage = Stage::new();
    let events = events(&export(&stage, &["ocsf"], &samples::dir()));
    let lines = lines();
    assert_eq!(events.len(), lines.len());
    for (event, line) in events.iter().zip(&lines) {
        let id = data_encoding::HEXLOWER.encode(&Sha256::digest(line));
        assert_eq!(event["metadata"]["uid"], id);
        let line: Value = serde_json::from_str(line).unwrap();
        for (name, value) in line.as_object().unwrap() {
            let place = match name.as_str() {
                "seq" => &event["metadata"]["sequence"],
                "ts" => &event["metadata"]["original_time"],
                "event" => &event["metadata"]["event_code"],
                "engine_version" => &event["metadata"]["product"]["version"],
                "host" => &event["device"]["hostname"],
                "v" => {
                    assert_eq!(event["metadata"]["log_version"], value.to_string());
                    continue;
                }
                name => &event["unmapped"][name],
            };
            assert_eq!(place, value, "{name}");
        }
    }
    // The next line is chained to the id.
    for (event, next) in events.iter().zip(events.iter().skip(1)) {
        assert_eq!(event["metadata"]["uid"], next["unmapped"]["prev"]);
    }
}

#[test]
fn events_are_of_the_form_that_ocsf_asks_for() {
    let stage = Stage::new();
    let schema = fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/ocsf/1.8.0.toml"),
    );
    let schema: Value = toml::from_str(&schema.unwrap()).unwrap();
    let mut classes = std::collections::BTreeSet::new();
    // And lines that are no more than a beginning.
    let odd = stage.path("odd.jsonl");
    fs::write(
        &odd,
        "{}\n{\"kind\":\"prompt\"}\n{\"kind\":\"checkpoint\",\"ts\":1}\n",
    )
    .unwrap();
    for from in [samples::dir(), odd] {
        for event in events(&export(&stage, &["ocsf"], &from)) {
            let faults = ocsf_faults(&schema, &event);
            assert!(faults.is_empty(), "{faults:?}: {event:#}");
            classes.insert(event["class_uid"].as_u64().unwrap());
        }
    }
    assert_eq!(
        classes.into_iter().collect::<Vec<_>>(),
        [0, 1001, 1007, 6003, 6008]
    );
    // What the schema does not have is found.
    let sound = events(&export(&stage, &["ocsf"], &samples::dir())).remove(2);
    assert_eq!(sound["class_uid"], 1001);
    for (pointer, value) in [
        ("/class_uid", json!(1002)),
        ("/type_uid", json!(100_103)),
        ("/severity", json!("High")),
        ("/metadata/version", json!("1.0.0")),
        ("/metadata/uid", json!(5)),
        ("/file", Value::Null),
        ("/file/name", Value::Null),
        ("/file/owner", json!("x")),
        ("/actor", json!({})),
        ("/actor/user/uid", json!(1000)),
        ("/device/type_id", json!("0")),
        ("/outcome", json!("x")),
    ] {
        let mut event = sound.clone();
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        event.pointer_mut(parent).unwrap()[name] = value;
        assert!(!ocsf_faults(&schema, &event).is_empty(), "{pointer}");
    }
}

#[test]
fn decisions_are_told_as_ocsf_tells_them() {
    let stage = Stage::new();
    let asked = |words: &[&str]| {
        events(&export(
            &stage,
            &[&["ocsf"], words].concat(),
            &samples::dir(),
        ))
    };
    let denied = &asked(&["--decision", "deny", "--path", "billing/keys.txt"])[0];
    let expected = json!({
        "type_uid": 100_102, "action": "Denied", "disposition": "Blocked", "severity": "Medium",
        "status": "Failure", "is_alert": true, "message": "deny: read ../billing/keys.txt",
        "time": 1_772_443_466_000_u64,
    });
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(&denied[name], value, "{name}");
    }
    assert_eq!(denied["policy"]["uid"], "default:outside-read");
    assert_eq!(
        denied["file"],
        json!({"name": "keys.txt", "path": "/srv/code/billing/keys.txt", "type_id": 0})
    );
    let command = &asked(&["--policy", "privileged-command"])[0];
    assert_eq!(command["process"]["cmd_line"], "sudo chown -R build .");
    assert_eq!(command["type_uid"], 100_701);
    let address = &asked(&["--policy", "private-address"])[0];
    assert_eq!(
        address["http_request"]["url"]["url_string"],
        "http://10.0.0.8/admin"
    );
    let asked_about = &asked(&["--decision", "ask"])[0];
    assert_eq!(asked_about["action_id"], 99);
    assert_eq!(asked_about["severity"], "Low");
    let failed = &asked(&["--kind", "result", "--tool", "bash"])[0];
    assert_eq!(failed["status"], "Failure");
    // A hidden text is told by its HMAC.
    let hidden = &asked(&["--since", "2026-03-03T13:00:00Z", "--tool", "bash"])[0];
    let session = hidden["actor"]["session"]["uid"].as_str().unwrap();
    assert!(session.starts_with("hidden:"), "{session}");
    assert_eq!(hidden["unmapped"]["session"]["len"], 600);
}

#[test]
fn every_line_is_an_event_of_cef() {
    let stage = Stage::new();
    let answer = export(&stage, &["cef"], &samples::dir());
    assert_eq!(answer.code, 0, "{answer:?}");
    assert_eq!(answer.text.lines().count(), lines().len());
    for (event, line) in answer.text.lines().zip(lines()) {
        let id = data_encoding::HEXLOWER.encode(&Sha256::digest(&line));
        assert!(
            event.starts_with("CEF:0|copilot-bridge|copilot-bridge|"),
            "{event}"
        );
        assert!(event.contains(&format!(" cs1Label=id cs1={id}")), "{event}");
    }
    let denied = export(
        &stage,
        &["cef", "--policy", "outside-read"],
        &samples::dir(),
    );
    assert!(
        denied
            .text
            .contains("|tool_use|pre_tool_use deny|6|rt=1772443466000 dvchost=build-1 "),
        "{denied:?}"
    );
    assert!(
        denied
            .text
            .contains(" filePath=/srv/code/billing/keys.txt "),
        "{denied:?}"
    );
}

#[test]
fn what_a_hook_is_told_cannot_forge_an_event_of_cef() {
    let stage = Stage::new();
    let hostile = "echo a|b\\ act=allow\r\nCEF:0|x|y|1|z|forged|0|\u{1b}[2Jact=allow";
    stage.judge("bash", &json!({"command": format!("sudo {hostile}")}));
    let answer = export(&stage, &["cef"], &stage.state());
    assert_eq!(answer.text.lines().count(), 1, "{answer:?}");
    let line = answer.text.trim_end();
    assert!(!line.chars().any(char::is_control), "{line}");
    assert_eq!(line.matches(" act=").count(), 1, "{line}");
    assert!(line.contains(" act=deny "), "{line}");
    assert!(line.contains("a|b\\\\ act\\=allow\\r\\nCEF:0|"), "{line}");
}

#[test]
fn this_installations_record_is_exported_by_default() {
    let stage = Stage::new();
    stage.judge("view", &json!({"path": "a.txt"}));
    stage.judge("bash", &json!({"command": "sudo ls"}));
    let mut command = stage.command(&["audit", "export", "--format", "ocsf", "--state"]);
    command.arg(stage.state());
    assert_eq!(events(&run(command)).len(), 2);
    let mut command = stage.command(&["audit", "export", "--format", "ocsf", "--state"]);
    command.arg(stage.path("nowhere"));
    let answer = run(command);
    assert_eq!((answer.code, answer.text.as_str()), (1, ""));
    assert!(
        answer.errors.contains("there is no record in `"),
        "{answer:?}"
    );
}

#[test]
fn a_file_is_there_once_it_is_whole_and_is_nobody_elses() {
    let stage = Stage::new();
    let target = stage.path("out.ndjson");
    let target_name = target.to_str().unwrap();
    let answer = export(&stage, &["ocsf", "--output", target_name], &samples::dir());
    assert_eq!((answer.code, answer.text.as_str()), (0, ""), "{answer:?}");
    let text = fs::read_to_string(&target).unwrap();
    assert_eq!(text, export(&stage, &["ocsf"], &samples::dir()).text);
    // What cannot be read leaves what was there, and nothing besides.
    let broken = stage.path("ws/broken");
    fs::create_dir_all(broken.join("audit-2026-01-01.jsonl")).unwrap();
    let answer = export(&stage, &["ocsf", "--output", target_name], &broken);
    assert_eq!(answer.code, 1, "{answer:?}");
    assert_eq!(fs::read_to_string(&target).unwrap(), text);
    assert!(
        fs::read_dir(target.parent().unwrap())
            .unwrap()
            .all(|entry| !entry
                .unwrap()
                .file_name()
                .to_str()
                .unwrap()
                .starts_with(".tmp"))
    );
    for (name, why) in [
        ("ws", "is no plain file"),
        ("nowhere/x", "cannot write `"),
        ("audit-2026-03-02.jsonl", "named like a day of a record"),
    ] {
        let path = stage.path(name);
        let answer = export(
            &stage,
            &["ocsf", "--output", path.to_str().unwrap()],
            &samples::dir(),
        );
        assert_eq!(answer.code, 1, "{name}: {answer:?}");
        assert!(answer.errors.contains(why), "{name}: {answer:?}");
    }
}

#[test]
fn what_cannot_be_read_is_passed_over_and_said() {
    let stage = Stage::new();
    let day = stage.path("audit-2026-03-02.jsonl");
    let line = lines().remove(0);
    let long = "x".repeat(20_000);
    fs::write(
        &day,
        format!("{line}\nno json\n5\n{long}\n{line}\n{{\"torn"),
    )
    .unwrap();
    let answer = export(&stage, &["ocsf"], &day);
    assert_eq!(events(&answer).len(), 2);
    assert!(
        answer
            .errors
            .starts_with("warning: 3 lines left out that cannot be read\nhelp: "),
        "{answer:?}"
    );
    let answer = export(&stage, &["ocsf", "--kind", "session"], &day);
    assert_eq!((events(&answer).len(), answer.errors.as_str()), (2, ""));
}

#[cfg(target_os = "linux")]
#[test]
fn a_reader_that_goes_away_is_no_failure() {
    use std::io::Read;
    let stage = Stage::new();
    let mut command = stage.command(&["audit", "export", "--format", "ocsf"]);
    let mut child = command.arg(samples::dir()).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    out.read_exact(&mut [0; 16]).unwrap();
    drop(out);
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

/// What of an event is not as the schema wants it.
fn ocsf_faults(schema: &Value, event: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    let number = |name: &str| event[name].as_u64().unwrap_or(u64::MAX);
    let uid = number("class_uid");
    let Some(class) = schema["classes"].get(uid.to_string()) else {
        return vec![format!("no class {uid}")];
    };
    let base = &schema["event"];
    let mut whole = json!({"required": [], "types": {}});
    for part in [base, class] {
        let list = whole["required"].as_array_mut().unwrap();
        list.extend(part["required"].as_array().unwrap().clone());
        let types = whole["types"].as_object_mut().unwrap();
        types.extend(part["types"].as_object().unwrap().clone());
    }
    object_faults(schema, &whole, event, "", &mut faults);
    let mut same = |name: &str, expected: Value| {
        if event[name] != expected {
            faults.push(format!("`{name}` is {}, not {expected}", event[name]));
        }
    };
    same("class_name", class["name"].clone());
    same("category_name", class["category"].clone());
    same("category_uid", json!(uid / 1000));
    same("type_uid", json!(uid * 100 + number("activity_id")));
    for (name, names) in base["names"].as_object().unwrap() {
        let id = number(&format!("{name}_id"));
        if id != 99 {
            same(name, names[&id.to_string()].clone());
        }
    }
    let activity = number("activity_id");
    if activity != 99 {
        same(
            "activity_name",
            class["activities"][&activity.to_string()].clone(),
        );
    }
    if event["metadata"]["version"] != schema["version"] {
        faults.push("another version".to_owned());
    }
    faults
}

fn object_faults(schema: &Value, form: &Value, value: &Value, at: &str, faults: &mut Vec<String>) {
    let Some(fields) = value.as_object() else {
        faults.push(format!("{at} is no object"));
        return;
    };
    let names = |list: &str| {
        let list = form[list].as_array().cloned().unwrap_or_default();
        list.into_iter()
            .map(|name| name.as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let is_there = |name: &String| fields.get(name).is_some_and(|value| !value.is_null());
    for name in names("required").iter().filter(|name| !is_there(name)) {
        faults.push(format!("{at}/{name} is not there"));
    }
    let one_of = names("one_of");
    if !one_of.is_empty() && !one_of.iter().any(is_there) {
        faults.push(format!("{at} has none of {one_of:?}"));
    }
    for (name, value) in fields {
        let place = format!("{at}/{name}");
        let fits = match form["types"][name].as_str() {
            Some("text") => value.is_string(),
            Some("number") => value.is_u64(),
            Some("flag") => value.is_boolean(),
            Some("[text]") => value
                .as_array()
                .is_some_and(|all| all.iter().all(Value::is_string)),
            Some("any") => value.is_object(),
            Some(object) => {
                object_faults(schema, &schema["objects"][object], value, &place, faults);
                true
            }
            None => false,
        };
        if !fits {
            faults.push(format!("{place} is of another type, or unknown"));
        }
    }
}

#[cfg(feature = "serve")]
mod parquet_file {
    use super::*;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;

    /// The rows of a file, as name and value.
    fn rows(path: &Path) -> Vec<Vec<(String, Field)>> {
        let reader = SerializedFileReader::new(fs::File::open(path).unwrap()).unwrap();
        let rows = reader.get_row_iter(None).unwrap();
        rows.map(|row| {
            let row = row.unwrap();
            row.get_column_iter()
                .map(|(name, field)| (name.clone(), field.clone()))
                .collect()
        })
        .collect()
    }

    fn expected(value: &Value, name: &str) -> Field {
        let nested = [
            "args_hmac",
            "args_redacted",
            "requests",
            "reasons",
            "obligations",
            "redactions",
            "trace",
            "detail",
        ];
        match value {
            _ if name == "truncated" => Field::Bool(value == &json!(true)),
            Value::Null => Field::Null,
            Value::String(text) if name == "ts" => {
                let time: jiff::Timestamp = text.parse().unwrap();
                Field::TimestampMicros(time.as_microsecond())
            }
            Value::String(text) if !nested.contains(&name) => Field::Str(text.clone()),
            Value::Number(number) => Field::Long(number.as_i64().unwrap()),
            other => Field::Str(other.to_string()),
        }
    }

    #[test]
    fn every_field_is_a_column_with_what_the_line_says() {
        let stage = Stage::new();
        let target = stage.path("record.parquet");
        let answer = export(
            &stage,
            &["parquet", "--output", target.to_str().unwrap()],
            &samples::dir(),
        );
        assert_eq!(answer.code, 0, "{answer:?}");
        let rows = rows(&target);
        let lines = lines();
        assert_eq!(rows.len(), lines.len());
        for (row, line) in rows.iter().zip(&lines) {
            let id = data_encoding::HEXLOWER.encode(&Sha256::digest(line));
            assert_eq!(row[0], ("id".to_owned(), Field::Str(id)));
            let line: Value = serde_json::from_str(line).unwrap();
            for (name, found) in &row[1..] {
                assert_eq!(found, &expected(&line[name], name), "{name}");
            }
            for name in line.as_object().unwrap().keys() {
                assert!(row.iter().any(|(column, _)| column == name), "{name}");
            }
        }
    }

    #[test]
    fn a_record_without_what_is_asked_about_is_an_empty_table() {
        let stage = Stage::new();
        let target = stage.path("record.parquet");
        let words = [
            "parquet",
            "--session",
            "nobody",
            "--output",
            target.to_str().unwrap(),
        ];
        let answer = export(&stage, &words, &samples::dir());
        assert_eq!(answer.code, 0, "{answer:?}");
        assert_eq!(rows(&target).len(), 0);
    }

    #[test]
    fn a_table_goes_through_a_pipe_as_it_is() {
        let stage = Stage::new();
        let target = stage.path("record.parquet");
        export(
            &stage,
            &["parquet", "--output", target.to_str().unwrap()],
            &samples::dir(),
        );
        let mut command = stage.command(&["audit", "export", "--format", "parquet"]);
        let output = command.arg(samples::dir()).output().unwrap();
        assert!(output.stdout == fs::read(&target).unwrap());
    }

    #[test]
    fn lines_of_forms_that_nobody_knows_are_rows() {
        let stage = Stage::new();
        let day = stage.path("odd.jsonl");
        let text = "{}\n{\"seq\":\"x\",\"ts\":5,\"kind\":{\"a\":1},\"reasons\":7,\"truncated\":2,\"more\":1}\n";
        fs::write(&day, text).unwrap();
        let target = stage.path("record.parquet");
        let answer = export(
            &stage,
            &["parquet", "--output", target.to_str().unwrap()],
            &day,
        );
        assert_eq!((answer.code, answer.errors.as_str()), (0, ""), "{answer:?}");
        let rows = rows(&target);
        let found = |name: &str| {
            rows[1]
                .iter()
                .find(|(column, _)| column == name)
                .unwrap()
                .1
                .clone()
        };
        assert_eq!(rows.len(), 2);
        assert_eq!(found("seq"), Field::Null);
        assert_eq!(found("ts"), Field::Null);
        assert_eq!(found("kind"), Field::Str("{\"a\":1}".to_owned()));
        assert_eq!(found("reasons"), Field::Str("7".to_owned()));
        assert_eq!(found("truncated"), Field::Bool(false));
    }
}

#[cfg(feature = "serve")]
#[test]
fn every_line_is_a_request_of_otlp() {
    let stage = Stage::new();
    let answer = export(&stage, &["otel"], &samples::dir());
    assert_eq!(answer.code, 0, "{answer:?}");
    assert_eq!(answer.text.lines().count(), lines().len());
    for (request, line) in answer.text.lines().zip(lines()) {
        let request: opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest =
            serde_json::from_str(request).unwrap();
        let record = &request.resource_logs[0].scope_logs[0].log_records[0];
        let id = data_encoding::HEXLOWER.encode(&Sha256::digest(&line));
        let is = |one: &&opentelemetry_proto::tonic::common::v1::KeyValue| {
            one.key == "copilot_bridge.record.id"
        };
        let found = record.attributes.iter().find(is).unwrap();
        assert!(format!("{:?}", found.value).contains(&id), "{found:?}");
    }
}
