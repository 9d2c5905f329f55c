use std::io::Cursor;

use serde_json::Value;

use super::*;
use crate::scrub::testing::{Trial, token};

/// A reader that gives pieces of that size.
struct Pieces(Cursor<Vec<u8>>, usize);

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let room = buffer.len().min(self.1);
        self.0.read(&mut buffer[..room])
    }
}

fn password() -> String {
    ["hunter", "22"].concat()
}

const fn number() -> u32 {
    12_345_678
}

const SIZES: [usize; 5] = [1, 7, 100, 5000, 1 << 20];

fn through(text: &[u8], size: usize) -> Vec<u8> {
    let trial = Trial::new();
    let sets = trial.sets();
    let mut new = Vec::new();
    let mut input = Pieces(Cursor::new(text.to_vec()), size);
    let redactor = Redactor::new(&sets, &[7; 32]);
    run(redactor, Wanted::Text, false, &mut input, &mut |part| {
        if let Part::Text(bytes) = part {
            new.extend_from_slice(bytes);
        }
        Ok(())
    })
    .unwrap();
    new
}

fn places(text: &[u8], size: usize) -> Vec<(Place, Place)> {
    let trial = Trial::new();
    let sets = trial.sets();
    let mut places = Vec::new();
    let mut input = Pieces(Cursor::new(text.to_vec()), size);
    let redactor = Redactor::new(&sets, &[7; 32]);
    run(redactor, Wanted::Findings, false, &mut input, &mut |part| {
        if let Part::Seen(seen) = part {
            places.push((seen.start, seen.end));
        }
        Ok(())
    })
    .unwrap();
    places
}

#[test]
fn what_holds_nothing_is_not_changed() {
    let blob = format!("x = \"{}\"", "QUJD/+".repeat(300_000));
    let lines = "[2026-01-01] {not json}\n[info] a\n{\n  int x;\n}\r\n".repeat(300);
    let mut random = 7_u32;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        random.to_le_bytes()[3]
    })
    .take(20_000)
    .collect();
    for text in [
        &b""[..],
        b"\n",
        b"a",
        b"a\r\nb\r\n\r\nc",
        b"\xff\xfe",
        b"caf\xe9 \xc3\xa9 \xf0\x9f\x98 \xf0\x9f\x98\x80 end\xc3",
        b"\xef\xbb\xbf{\"a\": 1.50}\n",
        b"{\"a\": [1e5, \"\\u00e9\\/\"],\n\n \"b\":{}} \n{}{}\n[] x\n[",
        b"{\"open\": \"\n{\"open\": \"\n",
        lines.as_bytes(),
        blob.as_bytes(),
        &noise,
    ] {
        for size in SIZES {
            if size < 100 && text.len() > 100_000 {
                continue;
            }
            let start = String::from_utf8_lossy(&text[..text.len().min(40)]);
            assert!(through(text, size) == text, "{start:?} in pieces of {size}");
        }
    }
}

#[test]
fn a_secret_leaves_wherever_it_is_cut() {
    let text = format!(
        "one\r\nexport T={0}\r\ncaf\u{e9}\n{{\"a\": \"{0}\",\n \"password\": \"{1}\",\n \"n\": 1.50}}\n\
         [note] {0}\n[\"{0}\", 2.0]\n{{\"b\":\"{0}\"}}\nlast {0}",
        token(),
        password()
    );
    let mut text = text.into_bytes();
    text.extend_from_slice(b"\xff ");
    text.extend_from_slice(token().as_bytes());
    let whole = through(&text, usize::MAX);
    assert!(!String::from_utf8_lossy(&whole).contains(&token()));
    assert!(!String::from_utf8_lossy(&whole).contains(&password()));
    assert!(String::from_utf8_lossy(&whole).contains("\"n\": 1.50}\n[note] «"));
    let found = places(&text, usize::MAX);
    assert_eq!(found.len(), 8);
    for size in 1..200 {
        assert_eq!(through(&text, size), whole, "in pieces of {size}");
        assert_eq!(places(&text, size), found, "in pieces of {size}");
    }
    let start = |line, column| Place { line, column };
    assert_eq!(found[0].0, start(2, 10));
    assert_eq!(found[1].0, start(4, 8));
    assert_eq!(found[7].0, start(10, 6 + token().len() as u64 + 2));
    assert_eq!(through(&whole, 1000), whole, "once more");
}

#[test]
fn documents_stay_documents() {
    let inner = serde_json::json!({"token": token(), "password": number(), "a": [1.5, null]});
    let row = serde_json::json!({
        "text": format!("x\n{}\ty", token()),
        "nested": inner.to_string(),
        token(): {"password": password()},
    });
    let long: Vec<Value> = std::iter::repeat_n(row.clone(), 2000).collect();
    let documents = [
        row.to_string(),
        serde_json::to_string_pretty(&row).unwrap(),
        serde_json::to_string_pretty(&long).unwrap(),
        Value::from(long).to_string(),
        "[]".to_owned(),
        serde_json::to_string_pretty(&inner).unwrap(),
    ];
    let text = documents.join("\n");
    for size in [300, 5000, 1 << 20] {
        let new = String::from_utf8(through(text.as_bytes(), size)).unwrap();
        assert!(
            !new.contains(&token())
                && !new.contains(&password())
                && !new.contains(&number().to_string())
        );
        let read: Vec<Value> = serde_json::Deserializer::from_str(&new)
            .into_iter()
            .map(Result::unwrap)
            .collect();
        assert_eq!(read.len(), documents.len(), "in pieces of {size}");
        assert_eq!(read[3].as_array().map(Vec::len), Some(2000));
    }
}

#[test]
fn findings_stand_where_the_whole_text_has_them() {
    let trial = Trial::new();
    let sets = trial.sets();
    let redactor = Redactor::new(&sets, &[7; 32]);
    let line = format!("some words, é and T={} behind\n", token());
    let text = ["plain\n".repeat(20_000), line].concat().repeat(4);
    let whole: Vec<_> = text::look(redactor, text.as_bytes())
        .unwrap()
        .iter()
        .map(|seen| (seen.start, seen.end))
        .collect();
    assert_eq!(whole.len(), 4);
    for size in [4096, 1 << 20] {
        assert_eq!(places(text.as_bytes(), size), whole, "in pieces of {size}");
    }
}

#[test]
fn what_cannot_be_written_is_an_error() {
    let trial = Trial::new();
    let sets = trial.sets();
    let redactor = Redactor::new(&sets, &[7; 32]);
    let mut input = Cursor::new(b"text\n".to_vec());
    let broken = run(redactor, Wanted::Text, false, &mut input, &mut |_| {
        Err(io::ErrorKind::BrokenPipe.into())
    });
    assert!(matches!(broken, Err(Broken::Io(_))));
}

#[test]
fn tables_and_wide_texts_are_taken_whole() {
    let trial = Trial::new();
    let sets = trial.sets();
    let redactor = Redactor::new(&sets, &[7; 32]);
    let text = format!("T={}\n", token());
    let wide: Vec<u8> = std::iter::once(0xFEFF)
        .chain(text.encode_utf16())
        .flat_map(u16::to_le_bytes)
        .collect();
    for (text, whole) in [(text.into_bytes(), true), (wide, false)] {
        let mut new = Vec::new();
        let mut input = Pieces(Cursor::new(text.clone()), 3);
        run(redactor, Wanted::Text, whole, &mut input, &mut |part| {
            if let Part::Text(bytes) = part {
                new.extend_from_slice(bytes);
            }
            Ok(())
        })
        .unwrap();
        assert_eq!(Some(new), text::clean(redactor, &text).unwrap());
    }
}

/// Texts of the pieces that matter: marks of JSON, lines, secrets, bytes that are no text.
fn mixed() -> impl proptest::strategy::Strategy<Value = Vec<u8>> {
    use proptest::prelude::*;
    let secret = token();
    let piece = prop_oneof![
        8 => prop::sample::select(vec![
            "{", "}", "[", "]", "\"", ":", ",", " ", "\n", "\r\n", "a", "1.50", "null", "\\", "é",
            "\"key\": ", "{\"a\": [1, \"b\"]}\n", "plain words here\n", "\u{feff}",
        ]).prop_map(|text| text.as_bytes().to_vec()),
        1 => Just(secret.into_bytes()),
        1 => prop::collection::vec(any::<u8>(), 1..4),
    ];
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(400))]

    #[test]
    fn secrets_leave_and_nothing_else_does(text in mixed(), size in 1_usize..80) {
        let new = through(&text, size);
        let holds = |text: &[u8]| memchr::memmem::find(text, token().as_bytes()).is_some();
        let found = places(&text, size);
        if found.is_empty() {
            assert_eq!(new, text);
        }
        // Letters around it make it another text.
        if new != text {
            assert!(!found.is_empty());
        }
        assert_eq!(through(&new, size), new, "once more");
        // A mark of UTF-16 makes another text of what stands behind it.
        if !text.starts_with(b"\xfe\xff") && !text.starts_with(b"\xff\xfe") {
            let spaced = [&text[..], b"\n", token().as_bytes(), b"\n"].concat();
            assert!(!holds(&through(&spaced, size)) || holds(&new));
        }
        if serde_json::from_slice::<Value>(&text).is_ok() {
            assert!(serde_json::from_slice::<Value>(&new).is_ok());
        }
    }

    #[test]
    fn json_stays_json(text in "[a-z \n]{0,20}", size in 1_usize..80, pretty: bool) {
        let value = serde_json::json!([{"password": password(), text.clone(): text}, token(), 1.5, {}]);
        let text = if pretty { format!("\n {value:#}\n") } else { value.to_string() };
        let new = through(text.as_bytes(), size);
        let read: Value = serde_json::from_slice(&new).unwrap();
        assert!(read[1].as_str().unwrap().starts_with("«redacted:test-token#"));
        assert_eq!(read[2], 1.5);
    }
}
