//! Secrets leave every text, wherever they stand and however it is cut; nothing else changes.
//!
//! The texts are made of tokens that are made up here, in the ways in which texts hold them.

use std::sync::OnceLock;

use copilot_bridge::engine::redaction::{
    Redactor, Ruleset, Stream, contains_placeholder, find, find_as_written,
};
use copilot_bridge::policy::{self, Layer, Source};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::cases;

/// One rule of each form.
const PACK: &str = r#"
format = 1
pack = "test"
[allow]
values = ["example", "${"]
exact = ["changeme"]

[[rule]]
id = "token"
description = "x"
severity = "high"
token = { prefix = ["tok_"], chars = "alnum", length = [16, 40] }

[[rule]]
id = "password"
description = "x"
severity = "medium"
keywords = ["password", "api_key", "api-key", "apikey"]
value = { names = ["password", "apikey"], chars = "[A-Za-z0-9_.!@-]", quoted = "[!-~]", length = [8, 80] }
require = ["digit"]

[[rule]]
id = "key"
description = "x"
severity = "critical"
block = { begin = ["-----BEGIN "], contains = "PRIVATE KEY", end = "-----END " }

[[rule]]
id = "url"
description = "x"
severity = "high"
userinfo = { length = [4, 0] }

[[rule]]
id = "labelled"
description = "x"
severity = "low"
keywords = ["ssn"]
pattern = '''(?i)\bssn\b[\s:#"]{1,8}(?<secret>[0-9]{3}-[0-9]{2}-[0-9]{4})\b'''

[[rule]]
id = "words"
description = "x"
severity = "low"
words = ["quite secret", "Zanzibar"]

[[rule]]
id = "fields"
description = "x"
severity = "low"
fields = ["born", "full name"]
"#;

fn rules() -> &'static Ruleset {
    static RULES: OnceLock<Ruleset> = OnceLock::new();
    RULES.get_or_init(|| {
        let permit = "@id(\"p\") @reason(\"r\") permit(principal, action, resource);";
        let files = [("a.cedar", permit), ("redaction/test.toml", PACK)];
        let files = files.map(|(name, text)| (name.to_owned(), text.to_owned()));
        let sources = [Source::new(Layer::User, "/p", files)];
        let bundle = policy::load_sources(&sources).unwrap();
        bundle.settings.redaction.secrets.open().unwrap()
    })
}

fn redact(text: &str) -> String {
    Redactor::new(&[rules()], b"k").text(text).unwrap().value
}

/// A secret, and a text that says it in one of many ways.
fn saying() -> impl Strategy<Value = (String, String)> {
    let token = "[A-Za-z0-9]{16,40}".prop_map(|run| format!("tok_{run}"));
    let password = "[A-Za-z][A-Za-z0-9_.!@-]{6,20}[0-9]".prop_map(|text| text);
    prop_oneof![
        (token, 0..16_usize).prop_map(|(secret, way)| {
            let text = said(&secret, way);
            (secret, text)
        }),
        (password, 0..8_usize).prop_map(|(secret, way)| {
            let text = match way {
                0 => format!("DB_PASSWORD={secret}"),
                1 => format!("password: \"{secret}\""),
                2 => json!({"password": secret, "port": 1}).to_string(),
                3 => json!({"a": json!({"api_key": secret}).to_string()}).to_string(),
                4 => json!([{"name": "password", "value": secret}]).to_string(),
                5 => format!("curl -H 'X-Api-Key: {secret}' https://host/"),
                6 => format!("tool --password {secret} now"),
                _ => format!("{{\\\"password\\\": \\\"{secret}\\\"}}"),
            };
            (secret, text)
        }),
        vec("[A-Za-z0-9+/]{64}", 2..5).prop_map(|lines| {
            let text = format!(
                "-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----",
                lines.join("\n")
            );
            (lines[0].clone(), text)
        }),
        "[a-z]{4}[0-9]{4}".prop_map(|word| (word.clone(), format!("https://me:{word}@host/x"))),
        "[0-9]{3}-[0-9]{2}-[0-9]{4}".prop_map(|ssn| (ssn.clone(), format!("SSN: {ssn}."))),
        "[0-9]{1,2}/[0-9]{4}".prop_map(|born| {
            let text = json!({"born": born, "id": 7}).to_string();
            (born, text)
        }),
    ]
}

fn said(secret: &str, way: usize) -> String {
    let base64 = data_encoding::BASE64.encode(format!("TOKEN={secret}\n").as_bytes());
    match way {
        0 => secret.to_owned(),
        1 => format!("see `{secret}`."),
        2 => json!({"k": [secret, 1.50, null]}).to_string(),
        3 => json!({"k": json!({"t": secret}).to_string()}).to_string(),
        4 => json!({secret: 1, "b": {"c": 2}}).to_string(),
        5 => format!("x={base64}"),
        6 => data_encoding::HEXLOWER.encode(format!("t={secret}").as_bytes()),
        7 => format!("u?a=1%26t%3D{secret}%22"),
        8 => format!("\u{1b}[32mTOKEN\u{1b}[0m=\u{1b}[1;33m{secret}\u{1b}[0m"),
        9 => format!("     7\tTOKEN={secret}"),
        10 => format!("+TOKEN={secret}\r"),
        11 => format!("a\\nTOKEN=\\u0022{secret}\\u0022"),
        12 => {
            let long = format!("# what a service needs to start\nTOKEN={secret}\n");
            let long = data_encoding::BASE64.encode(long.as_bytes());
            let (head, tail) = long.split_at(40);
            format!("{head}\n{tail}")
        }
        13 => data_encoding::BASE64URL_NOPAD.encode(base64.as_bytes()),
        14 => format!("{{\"level\":\"info\",\"t\":\"{secret}\"}}\n{{\"level\":\"warn\"}}"),
        _ => format!("TOKEN={}\\n{{}}", secret),
    }
}

/// Text that looks like something but says nothing.
fn noise() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ -~]{0,30}",
        "\\PC{0,12}",
        select(vec![
            "password = os.environ[\"DB_PASSWORD\"]",
            "api_key: ${API_KEY}",
            "-----BEGIN PRIVATE KEY-----",
            "tok_ is a prefix",
            "{\"a\": [1, 2.50, {\"b\": null}]}",
            "«redacted:token#abcd2345»",
            "commit 3f786850e387550fdab836ed7e6dc881de23001b",
            "\\u00",
            "%4",
            "\u{1b}[",
            "{",
            "[1,",
            "```",
        ])
        .prop_map(str::to_owned),
    ]
}

/// Secrets among other text, a line each.
fn text() -> impl Strategy<Value = (Vec<String>, String)> {
    vec((noise(), saying(), noise()), 0..4).prop_map(|parts| {
        let mut text = String::new();
        let mut secrets = Vec::new();
        for (before, (secret, said), behind) in parts {
            // On lines of their own: what stands around them is another property's concern.
            text.push_str(&format!("{}\n{said}\n{}\n", before.trim(), behind.trim()));
            secrets.push(secret);
        }
        (secrets, text)
    })
}

fn streamed(text: &str, cuts: &[usize]) -> String {
    let sets = [rules()];
    let mut stream = Stream::new(Redactor::new(&sets, b"k"));
    let mut out = String::new();
    let mut done = 0;
    for cut in cuts {
        if *cut >= done && text.is_char_boundary(*cut) {
            out.push_str(&stream.push(text.get(done..*cut).unwrap()).unwrap());
            done = *cut;
        }
    }
    out.push_str(&stream.push(text.get(done..).unwrap()).unwrap());
    out + &stream.finish().unwrap().value
}

/// The secrets that the text says, but its redacted form does not.
fn gone<'s>(secrets: &'s [String], redacted: &str) -> Vec<&'s String> {
    secrets
        .iter()
        .filter(|secret| !redacted.contains(secret.as_str()))
        .collect()
}

proptest! {
    #![proptest_config(cases(250))]

    #[test]
    fn a_secret_leaves_its_text((secret, said) in saying()) {
        let redacted = redact(&said);
        prop_assert!(!redacted.contains(&secret), "{said} -> {redacted}");
        prop_assert!(contains_placeholder(&redacted), "{said} -> {redacted}");
        // Also what says it in another way is gone.
        let left = find(&[rules()], &redacted).unwrap();
        prop_assert!(left.is_empty(), "{said} -> {redacted}: {left:?}");
    }

    #[test]
    fn redacting_twice_changes_nothing((_, text) in text()) {
        let once = redact(&text);
        prop_assert_eq!(redact(&once), once);
    }

    #[test]
    fn what_was_not_found_is_unchanged((_, text) in text()) {
        let findings = find(&[rules()], &text).unwrap();
        let redacted = redact(&text);
        let mut rest = redacted.as_str();
        let mut done = 0;
        for finding in &findings {
            prop_assert!(finding.span.start >= done && finding.span.end <= text.len());
            let before = text.get(done..finding.span.start).unwrap();
            // A second look may find more; what stands before the first one's findings is kept.
            if let Some(behind) = rest.strip_prefix(before) {
                rest = behind.split_once('»').map_or("", |(_, behind)| behind);
            }
            done = finding.span.end;
        }
        if findings.is_empty() {
            prop_assert_eq!(redacted, text);
        }
    }

    #[test]
    fn documents_stay_documents((_, said) in saying(), key in "[a-z]{1,8}", number in any::<f64>()) {
        let document = json!({key.clone(): said, "n": number, "born": 1931, "list": [{key: [said]}]});
        for text in [document.to_string(), serde_json::to_string_pretty(&document).unwrap()] {
            let redacted = redact(&text);
            let read: Value = serde_json::from_str(&redacted).unwrap();
            prop_assert_eq!(read["list"].as_array().map(Vec::len), Some(1));
            prop_assert!(read["born"].is_string(), "{redacted}");
        }
        let redactor = Redactor::new(&[rules()], b"k").value(&document).unwrap();
        prop_assert_eq!(&redactor.value["n"], &document["n"]);
    }

    #[test]
    fn keys_stay_as_many_as_they_were(keys in vec("[A-Za-z0-9]{16}", 1..4), copies in 1..3_usize) {
        let mut object = serde_json::Map::new();
        for key in &keys {
            for copy in 0..copies {
                object.insert(format!("{}tok_{key}", " ".repeat(copy)), json!(copy));
            }
        }
        let count = object.len();
        let redacted = Redactor::new(&[rules()], b"k").value(&Value::Object(object)).unwrap();
        prop_assert_eq!(redacted.value.as_object().unwrap().len(), count);
    }

    #[test]
    fn no_text_makes_it_panic(text in "\\PC{0,80}|[\\x00-\\x7f]{0,80}|[{}\\[\\]\":,\\\\a0 \n]{0,40}") {
        let _ = find(&[rules()], &text);
        let _ = find_as_written(&[rules()], &text);
        let _ = contains_placeholder(&text);
        let _ = streamed(&text, &[text.len() / 2]);
    }

    #[test]
    fn a_stream_hides_what_the_whole_hides(
        (secrets, text) in text(), cuts in vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let whole = redact(&text);
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
        cuts.sort_unstable();
        let out = streamed(&text, &cuts);
        for secret in gone(&secrets, &whole) {
            prop_assert!(!out.contains(secret.as_str()), "{text:?} at {cuts:?} -> {out:?}");
        }
        if whole == text {
            prop_assert_eq!(&out, &text);
        }
    }
}

#[test]
fn a_stream_may_be_cut_at_every_byte() {
    let secret = ["tok", "_", "Ab3dEf6hIj9kLmNo"].concat();
    for way in 0..16 {
        let text = format!("first line\n{}\nlast line\n", said(&secret, way));
        let whole = redact(&text);
        assert!(!whole.contains(&secret), "{text}");
        for cut in 0..=text.len() {
            let out = streamed(&text, &[cut]);
            assert!(!out.contains(&secret), "{text:?} at {cut} -> {out:?}");
            let decoded = find(&[rules()], &out).unwrap();
            assert!(decoded.is_empty(), "{text:?} at {cut} -> {out:?}");
        }
        let each: Vec<usize> = (0..=text.len()).collect();
        assert!(
            !streamed(&text, &each).contains(&secret),
            "{text:?} byte by byte"
        );
    }
}
