//! `ArcSight`'s Common Event Format, version 0: one line for each line of the record.

use std::fmt::Write;

use super::line::{resource_type, said};
use super::{Line, Severity};

/// The event that a line becomes, without a line feed.
#[must_use]
pub fn event(line: &Line<'_>) -> String {
    let severity = match line.severity() {
        Severity::Informational => 1,
        Severity::Low => 3,
        Severity::Medium => 6,
        Severity::High => 8,
    };
    let version = line.text("engine_version").unwrap_or_default();
    let name = [
        line.text("event").unwrap_or_default().as_str(),
        line.decision(),
    ]
    .join(" ");
    let mut text = format!(
        "CEF:0|copilot-bridge|copilot-bridge|{}|{}|{}|{severity}|",
        header(&version),
        header(line.kind()),
        header(name.trim()),
    );
    for (index, (key, value)) in extension(line).into_iter().enumerate() {
        let blank = if index > 0 { " " } else { "" };
        // Writing to a string cannot fail.
        let _ = write!(text, "{blank}{key}={}", escaped(&value));
    }
    text
}

/// Keys of the dictionary of the format, with their values.
fn extension(line: &Line<'_>) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    let mut put = |key: &'static str, limit: usize, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            found.push((key, value.chars().take(limit).collect::<String>()));
        }
    };
    let number = |name: &str| line.number(name).map(|number| number.to_string());
    let outcome = line.succeeded().map(|worked| match worked {
        true => "success".to_owned(),
        false => "failure".to_owned(),
    });
    let time = line.time().map(|time| time.as_millisecond().to_string());
    put("rt", 32, time);
    put("dvchost", 100, line.text("host"));
    put("dvcpid", 32, number("pid"));
    put("deviceFacility", 1023, line.text("dialect"));
    put("suid", 1023, number("uid"));
    put("cat", 1023, Some(line.kind().to_owned()));
    put("act", 63, Some(line.decision().to_owned()));
    put("outcome", 63, outcome);
    put("reason", 1023, line.text("error_class"));
    put("destinationServiceName", 1023, line.text("tool"));
    let resource = line.request().and_then(|request| request.get("resource"));
    let part = |name: &str| {
        resource
            .and_then(|resource| resource.get(name))
            .and_then(said)
    };
    let mut command = None;
    match line.request().and_then(resource_type) {
        Some("path") => {
            let path = part("resolved").filter(|path| !path.is_empty());
            let path = path.or_else(|| part("given")).unwrap_or_default();
            let name = path.rsplit('/').find(|name| !name.is_empty());
            put("fname", 1023, name.map(str::to_owned));
            put("filePath", 1023, Some(path));
        }
        Some("command") => {
            put("dproc", 1023, part("program"));
            command = part("text");
        }
        Some("url") => put("request", 1023, part("given")),
        _ => {}
    }
    put("msg", 1023, Some(line.summary()));
    for (label, key, name, value) in [
        ("cs1Label", "cs1", "id", Some(line.id().to_owned())),
        ("cs2Label", "cs2", "policy", Some(line.policies().join(" "))),
        ("cs3Label", "cs3", "session", line.text("session")),
        ("cs4Label", "cs4", "command", command),
        (
            "cs5Label",
            "cs5",
            "redactions",
            Some(line.rules().join(" ")),
        ),
        ("cs6Label", "cs6", "agent", line.text("agent")),
        (
            "flexString1Label",
            "flexString1",
            "entity",
            line.text("entity"),
        ),
        ("flexString2Label", "flexString2", "call", line.text("call")),
        ("cn1Label", "cn1", "seq", number("seq")),
        ("cn2Label", "cn2", "latency_us", number("latency_us")),
        ("cn3Label", "cn3", "depth", number("depth")),
    ] {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            put(label, 1023, Some(name.to_owned()));
            put(
                key,
                if key.starts_with("flex") { 1023 } else { 4000 },
                Some(value),
            );
        }
    }
    found
}

/// A text of the header, where a bar or a line feed would end it.
fn header(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\\' | '|' => escaped.extend(['\\', character]),
            _ => escaped.push(plain(character)),
        }
    }
    escaped
}

/// A value of the extension, where an equals sign would begin the next.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\\' | '=' => escaped.extend(['\\', character]),
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            _ => escaped.push(plain(character)),
        }
    }
    escaped
}

/// A blank for what a terminal or a collector of lines could take for a command.
fn plain(character: char) -> char {
    match character {
        '\u{2028}' | '\u{2029}' => ' ',
        character if character.is_control() => ' ',
        character => character,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    /// The header's parts and the extension, read by the rules of the format.
    fn parsed(event: &str) -> (Vec<String>, Vec<(String, String)>) {
        let mut header = vec![String::new()];
        let mut characters = event.chars();
        while header.len() < 8 {
            match characters.next().unwrap() {
                '\\' => header.last_mut().unwrap().push(characters.next().unwrap()),
                '|' => header.push(String::new()),
                other => header.last_mut().unwrap().push(other),
            }
        }
        header.pop();
        let rest: String = characters.collect();
        // A key is a word before an equals sign that nothing escapes.
        let key =
            regex::Regex::new(r"(?:^| )([A-Za-z0-9]+)=((?:[^=\\]|\\.)*?)(?: [A-Za-z0-9]+=|$)")
                .unwrap();
        let mut fields = Vec::new();
        let mut from = 0;
        while let Some(found) = key.captures_at(&rest, from) {
            let value = found.get(2).unwrap();
            let plain = value
                .as_str()
                .replace("\\n", "\n")
                .replace("\\=", "=")
                .replace("\\\\", "\\");
            fields.push((found[1].to_owned(), plain));
            from = value.end();
        }
        (header, fields)
    }

    fn line(text: &str) -> Value {
        json!({
            "seq": 7, "ts": "2026-03-02T08:00:00.123456Z", "kind": "tool_use", "host": "build-1", "uid": 1000,
            "event": "pre_tool_use", "dialect": "copilot", "session": text, "call": null, "tool": "bash",
            "requests": [
                {"action": "custom_tool", "resource": {"type": "tool", "server": "", "name": "bash"}},
                {"action": "shell", "resource": {"type": "command", "text": text, "program": "echo"}},
            ],
            "decision": "deny", "would_decide": "deny", "reasons": [{"id": "default:network"}],
            "redactions": [], "engine_version": text, "latency_us": 900, "error_class": null,
        })
    }

    fn exported(value: &Value) -> String {
        event(&Line::new(b"line", value))
    }

    #[test]
    fn a_denied_command_is_told_with_the_keys_of_the_dictionary() {
        let text = exported(&line("1.0"));
        let expected = "CEF:0|copilot-bridge|copilot-bridge|1.0|tool_use|pre_tool_use deny|6|\
            rt=1772438400123 dvchost=build-1 deviceFacility=copilot suid=1000 cat=tool_use act=deny \
            outcome=failure destinationServiceName=bash dproc=echo msg=deny: shell 1.0 cs1Label=id cs1=";
        assert!(text.starts_with(expected), "{text}");
        let id = super::super::id(b"line");
        assert!(
            text.ends_with(&format!(
                "{id} cs2Label=policy cs2=default:network cs3Label=session cs3=1.0 cs4Label=command cs4=1.0 \
                 cn1Label=seq cn1=7 cn2Label=latency_us cn2=900"
            )),
            "{text}"
        );
    }

    #[test]
    fn hostile_texts_stay_in_their_place() {
        let hostile = "a|b\\c=d\ne\rf\u{1b}[2Jg\u{2028}h act=allow \\";
        let text = exported(&line(hostile));
        assert!(!text.contains(['\n', '\r', '\u{1b}', '\u{2028}']), "{text}");
        let (header, fields) = parsed(&text);
        assert_eq!(header[3], "a|b\\c=d e f [2Jg h act=allow \\");
        assert_eq!(header[6], "6");
        let acts: Vec<_> = fields.iter().filter(|(key, _)| key == "act").collect();
        assert_eq!(acts, [&("act".to_owned(), "deny".to_owned())], "{text}");
    }

    #[test]
    fn a_path_and_an_address_have_keys_of_their_own() {
        let mut value = line("x");
        value["requests"] = json!([{"action": "read", "resource": {
            "type": "path", "given": "../b.txt", "resolved": "/srv/a b/b.txt"}}]);
        assert!(exported(&value).contains(" fname=b.txt filePath=/srv/a b/b.txt msg="));
        value["requests"] = json!([{"action": "url", "resource": {"type": "url", "given": "https://x.example/?a=b"}}]);
        assert!(exported(&value).contains(" request=https://x.example/?a\\=b msg="));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn no_text_adds_a_key_or_ends_the_line(text in "(?s).{0,60}") {
            let event = exported(&line(&text));
            prop_assert!(!event.chars().any(char::is_control));
            let (header, fields) = parsed(&event);
            prop_assert_eq!(header.len(), 7);
            let known = exported(&line("x"));
            let known: Vec<String> = parsed(&known).1.into_iter().map(|(key, _)| key).collect();
            // An empty text leaves its key out.
            prop_assert!(fields.iter().all(|(key, _)| known.contains(key)), "{}", event);
        }
    }
}
