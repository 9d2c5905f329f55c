//! What a host sends is read as it was meant, or not at all.

use std::fmt::Write;
use std::time::Duration;

use copilot_bridge::engine::decision::Effect;
use copilot_bridge::gate::event::{Body, Event, EventName};
use copilot_bridge::hook::dialect::Dialect;
use copilot_bridge::hook::{self};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Value, json};

use super::{bundles, cases};

/// A document with its keys as written, so that one may stand twice.
#[derive(Debug, Clone)]
enum Json {
    Plain(&'static str),
    /// Each character, and whether it is written as an escape.
    Text(Vec<(char, bool)>),
    List(Vec<Self>),
    Fields(Vec<(Vec<(char, bool)>, Self)>),
}

fn word(text: &[(char, bool)]) -> String {
    text.iter().map(|(c, _)| c).collect()
}

impl Json {
    fn write(&self, out: &mut String, blank: &str) {
        out.push_str(blank);
        match self {
            Self::Plain(text) => out.push_str(text),
            Self::Text(text) => write_text(text, out),
            Self::List(all) => {
                out.push('[');
                for (index, one) in all.iter().enumerate() {
                    out.push_str(if index == 0 { "" } else { "," });
                    one.write(out, blank);
                }
                out.push(']');
            }
            Self::Fields(fields) => {
                out.push('{');
                for (index, (key, value)) in fields.iter().enumerate() {
                    out.push_str(if index == 0 { "" } else { "," });
                    out.push_str(blank);
                    write_text(key, out);
                    out.push_str(blank);
                    out.push(':');
                    value.write(out, blank);
                }
                out.push('}');
            }
        }
        out.push_str(blank);
    }

    fn has_duplicate(&self) -> bool {
        match self {
            Self::Plain(_) | Self::Text(_) => false,
            Self::List(all) => all.iter().any(Self::has_duplicate),
            Self::Fields(fields) => {
                let mut keys: Vec<String> = fields.iter().map(|(key, _)| word(key)).collect();
                keys.sort();
                keys.windows(2).any(|pair| pair[0] == pair[1])
                    || fields.iter().any(|(_, value)| value.has_duplicate())
            }
        }
    }

    fn has_nul(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Text(text) => word(text).contains('\0'),
            Self::List(all) => all.iter().any(Self::has_nul),
            Self::Fields(fields) => fields
                .iter()
                .any(|(key, value)| word(key).contains('\0') || value.has_nul()),
        }
    }
}

fn write_text(text: &[(char, bool)], out: &mut String) {
    out.push('"');
    for (c, escape) in text {
        if *escape || c.is_control() || matches!(c, '"' | '\\') {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(*c);
        }
    }
    out.push('"');
}

fn document() -> impl Strategy<Value = Json> {
    let text = || {
        let c = prop_oneof![
            6 => select(vec!['a', 'b', '\n', '"', '\\', '😀', 'é', '\u{2028}', '\u{feff}']),
            1 => Just('\0'),
            2 => any::<char>(),
        ];
        vec((c, any::<bool>()), 0..3)
    };
    let leaf = prop_oneof![
        select(vec![
            "null",
            "true",
            "false",
            "0",
            "-0",
            "1",
            "-1",
            "1.5",
            "1e5",
            "1E+2",
            "5e-324",
            "1e308",
            "18446744073709551615",
            "18446744073709551616",
            "-9223372036854775808",
            "-9223372036854775809",
            "123456789012345678901234567890",
            "0.1",
            "-0.0",
            // These are no JSON.
            "1e999",
            "01",
            "+1",
            ".5",
            "NaN",
            "'a'",
            "[1,]",
            "nul",
            "\"\\ud800\"",
            "\"\t\"",
            "{}{}",
        ])
        .prop_map(Json::Plain),
        text().prop_map(Json::Text),
    ];
    // Mostly short keys out of few letters, so that duplicates happen.
    let key = move || {
        prop_oneof![
            3 => (select(vec!['a', 'b', 'c', 'd']), any::<bool>()).prop_map(|one| vec![one]),
            1 => text(),
        ]
    };
    leaf.prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Json::List),
            vec((key(), inner), 0..4).prop_map(Json::Fields),
        ]
    })
}

proptest! {
    #![proptest_config(cases(1500))]

    #[test]
    fn a_document_is_read_as_serde_json_reads_it(
        document in document(), blank in select(vec!["", " ", "\n\t", "\r\n"]),
    ) {
        let mut text = String::new();
        document.write(&mut text, blank);
        let event = format!("{{\"toolName\":\"x\",\"toolArgs\":{{\"x\":{text}}}}}");
        let ours = hook::parse(event.as_bytes(), Some(EventName::PreToolUse), None);
        let theirs = serde_json::from_str::<Value>(&text);
        match theirs {
            Ok(value) if !document.has_duplicate() && !document.has_nul() => {
                let (event, _) = ours.map_err(TestCaseError::fail)?;
                prop_assert_eq!(&event.call().unwrap().args["x"], &value);
            }
            _ => prop_assert!(ours.is_err(), "{}", event),
        }
    }
}

fn dialect() -> impl Strategy<Value = Option<Dialect>> {
    select(vec![
        None,
        Some(Dialect::Copilot),
        Some(Dialect::Claude),
        Some(Dialect::Vscode),
        Some(Dialect::Openclaw),
        Some(Dialect::Xpia { legacy_exit: false }),
        Some(Dialect::Xpia { legacy_exit: true }),
    ])
}

fn name() -> impl Strategy<Value = Option<EventName>> {
    proptest::option::weighted(0.8, select(&EventName::ALL[..]))
}

/// An event as a host writes it, of every kind.
fn real() -> impl Strategy<Value = Value> {
    let cwd = std::env::temp_dir().to_string_lossy().into_owned();
    select(vec![
        json!({"sessionId": "s", "timestamp": 1, "cwd": cwd, "toolName": "view", "toolArgs": {"path": "a"}}),
        json!({"sessionId": "s", "cwd": cwd, "toolName": "bash", "toolArgs": "{\"command\":\"ls -la\"}"}),
        json!({"session_id": "s", "cwd": cwd, "hook_event_name": "PreToolUse", "tool_name": "Edit",
               "tool_input": "*** Begin Patch\n*** Add File: a\n+x\n*** End Patch"}),
        json!({"session_id": "s", "cwd": cwd, "hook_event_name": "PostToolUse", "tool_name": "Read",
               "tool_input": {"file_path": "a"}, "tool_response": {"text": "é"}}),
        json!({"toolUse": {"name": "bash", "input": {"command": "rm -rf /"}}, "cwd": cwd}),
        json!({"sessionId": "s", "cwd": cwd, "prompt": "do it"}),
        json!({"sessionId": "s", "cwd": cwd, "error": {"message": "no", "recoverable": true}}),
        json!({"sessionId": "s", "cwd": cwd, "agentId": "a", "parentAgentId": "b", "source": "new"}),
        json!({"sessionId": "s", "cwd": cwd, "serverName": "m", "toolName": "t", "arguments": {"a": [1]}}),
    ])
}

/// What cannot be an event must not be let through, even where everything is permitted.
fn is_sound(bytes: &[u8], name: Option<EventName>, read: &Event) -> Result<(), TestCaseError> {
    let value: Value = serde_json::from_slice(bytes)
        .map_err(|error| TestCaseError::fail(format!("{error}, but it was taken for an event")))?;
    prop_assert!(value.is_object());
    prop_assert!(name.is_none_or(|name| name == read.name));
    let cwd = value.get("cwd").and_then(Value::as_str);
    prop_assert_eq!(cwd, read.cwd.as_deref());
    if let Some(call) = read.call() {
        let outer = ["toolName", "tool_name"].map(|key| value.get(key));
        let inner =
            ["toolUse", "tool_use"].map(|key| value.get(key).and_then(|use_| use_.get("name")));
        let said: Vec<&str> = outer
            .into_iter()
            .chain(inner)
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        prop_assert!(!said.is_empty() && !call.name.trim().is_empty());
        prop_assert!(
            said.iter().all(|said| call.name.ends_with(said)),
            "{:?}",
            said
        );
        prop_assert!(call.args.is_object() || call.args.is_string());
    }
    let tool_event = matches!(
        name,
        Some(EventName::PreToolUse | EventName::PermissionRequest)
    );
    prop_assert!(!tool_event || matches!(read.body, Body::Call(_)));

    let aside = std::path::Path::new("/nonexistent/bridge");
    let outcome = bundles::gate(Ok(bundles::lenient()), None, aside).pass(read, Duration::ZERO);
    let usable = cwd.is_some_and(|cwd| cwd.starts_with('/') && std::path::Path::new(cwd).is_dir());
    if outcome.effect() != Effect::Deny {
        prop_assert!(usable, "let through without a working directory");
    }
    Ok(())
}

/// What happens to bytes on their way.
#[derive(Debug, Clone)]
enum Damage {
    Set(Index, u8),
    Insert(Index, Vec<u8>),
    Remove(Index, usize),
    Repeat(Index, usize),
    Cut(Index),
}

fn damage() -> impl Strategy<Value = Damage> {
    let bytes = prop_oneof![
        select(&b"{}[]\",:\\ \0tn1-e\xff\xef"[..]).prop_map(|byte| vec![byte]),
        select(vec![
            "\"cwd\":\"/\",",
            "\"toolName\":\"x\",",
            "null",
            "\u{feff}",
            "\\u0000",
            "{}"
        ])
        .prop_map(|text| text.as_bytes().to_vec()),
        vec(any::<u8>(), 1..4),
    ];
    prop_oneof![
        (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Damage::Set(at, byte)),
        (any::<Index>(), bytes).prop_map(|(at, bytes)| Damage::Insert(at, bytes)),
        (any::<Index>(), 1..9usize).prop_map(|(at, count)| Damage::Remove(at, count)),
        (any::<Index>(), 1..30usize).prop_map(|(at, count)| Damage::Repeat(at, count)),
        any::<Index>().prop_map(Damage::Cut),
    ]
}

fn damaged(mut bytes: Vec<u8>, damage: &[Damage]) -> Vec<u8> {
    for damage in damage {
        if bytes.is_empty() {
            return bytes;
        }
        let length = bytes.len();
        match damage {
            Damage::Set(at, byte) => bytes[at.index(length)] = *byte,
            Damage::Insert(at, more) => {
                let at = at.index(length);
                bytes.splice(at..at, more.iter().copied());
            }
            Damage::Remove(at, count) => {
                let at = at.index(length);
                bytes.drain(at..length.min(at + count));
            }
            Damage::Repeat(at, count) => {
                let at = at.index(length);
                let piece = bytes[at..length.min(at + count)].to_vec();
                bytes.splice(at..at, piece);
            }
            Damage::Cut(at) => bytes.truncate(at.index(length)),
        }
    }
    bytes
}

/// Fields under the names that hosts use, with values of any kind.
fn fields() -> impl Strategy<Value = Value> {
    let keys = vec![
        "toolName",
        "tool_name",
        "toolArgs",
        "tool_input",
        "toolInput",
        "arguments",
        "toolUse",
        "cwd",
        "sessionId",
        "session_id",
        "agentId",
        "agent_id",
        "prompt",
        "error",
        "recoverable",
        "hook_event_name",
        "hookName",
        "toolResult",
        "serverName",
        "source",
        "reason",
        "name",
        "input",
        "parentAgentId",
        "transformedPrompt",
        "trigger",
        "stopReason",
    ];
    let texts = vec![
        "",
        "view",
        "bash",
        "/",
        "/tmp",
        "a\tb",
        "PreToolUse",
        "postToolUse",
        "{}",
        "{\"path\":\"a\"}",
        "*** Begin Patch",
        "\"x\"",
        "[]",
        "😀",
    ];
    let leaf = prop_oneof![
        4 => select(texts).prop_map(|text| json!(text)),
        1 => select(vec![json!(null), json!(true), json!(7), json!(-1.5), json!([])]),
    ];
    leaf.prop_recursive(3, 24, 6, move |inner| {
        let fields = vec((select(keys.clone()), inner.clone()), 0..7);
        prop_oneof![
            4 => fields.prop_map(|all| {
                Value::Object(all.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
            }),
            1 => vec(inner, 0..3).prop_map(Value::Array),
        ]
    })
}

proptest! {
    #![proptest_config(cases(2000))]

    #[test]
    fn no_bytes_are_an_event_by_chance(
        bytes in prop_oneof![
            vec(any::<u8>(), 0..64),
            vec(select(&b"{}[]\",:\\u0a 1-.etrufalsn\n\xc3\xa9"[..]), 0..40),
        ],
        name in name(), dialect in dialect(),
    ) {
        if let Ok((event, _)) = hook::parse(&bytes, name, dialect) {
            is_sound(&bytes, name, &event)?;
        }
    }

    #[test]
    fn any_fields_are_an_event_or_none(value in fields(), name in name(), dialect in dialect()) {
        let bytes = value.to_string().into_bytes();
        if let Ok((event, _)) = hook::parse(&bytes, name, dialect) {
            is_sound(&bytes, name, &event)?;
        }
    }

    #[test]
    fn a_damaged_event_is_read_as_it_stands_or_not_at_all(
        value in real(), damage in vec(damage(), 0..4), name in name(), dialect in dialect(),
    ) {
        let bytes = damaged(value.to_string().into_bytes(), &damage);
        if let Ok((event, _)) = hook::parse(&bytes, name, dialect) {
            is_sound(&bytes, name, &event)?;
        }
    }
}

#[test]
fn real_events_are_read() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let mut read = 0;
    for _ in 0..100 {
        let value = real().new_tree(&mut runner).unwrap().current();
        for name in EventName::ALL {
            let bytes = value.to_string().into_bytes();
            if let Ok((event, _)) = hook::parse(&bytes, Some(name), None) {
                is_sound(&bytes, Some(name), &event).unwrap();
                read += 1;
            }
        }
    }
    assert!(read > 300, "{read}");
}
