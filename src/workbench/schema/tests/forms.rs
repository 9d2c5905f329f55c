//! Texts of a certain form: reader and schema take and refuse the same.

use super::*;

#[test]
fn forms_are_those_of_the_reader() {
    let other = key();
    let (name, long) = ("n".repeat(64), "n".repeat(65));
    let (last, beyond) = ("n".repeat(500), "ü".repeat(501));
    let bare = other.strip_prefix("ed25519:").unwrap();
    // The last two bits are none of the key's.
    let mut odd_key = other.clone();
    odd_key.truncate(other.len() - 2);
    odd_key.push_str("B=");
    let blank = " ".repeat(200);
    let padded = format!(" {other} ");
    let names = ["ann", "a-b_c.9", "9a", "-a", "a b", "ä", "", &name, &long];
    let keys = [
        &other,
        &padded,
        &odd_key,
        bare,
        "ed25519:",
        "ed25519:AAAA",
        "",
    ];
    let lines = [
        "a", " a ", "ä\u{a0}", " ", "\u{a0}", "", "a\tb", "a\nb", "\u{85}", &last, &beyond,
    ];
    let variables = ["TOKEN", "a_9", "9", "", "a-b", "$TOKEN", "Bearer x"];
    let filled = ["/a", " ", "\t", ""];
    let paths = [
        "/a",
        "~/a",
        "**/a",
        "${workspace}/a",
        "${workspace",
        "a",
        "*/a",
        "./a",
        " ",
        "",
    ];
    let mut seen = BTreeSet::new();
    for (document, table, field, values) in [
        ("approvers", "approver", "name", &names[..]),
        ("approvers", "approver", "key", &keys),
        ("approvers", "approver", "groups", &names),
        ("bundle", "bundle", "keys", &keys),
        ("bundle", "bundle", "name", &names),
        ("bundle", "bundle", "name", &["9a", "Acme", "acme!", ".a"]),
        ("bundle", "bundle", "user_env", &variables),
        ("bundle", "bundle", "password_env", &variables),
        (
            "bundle",
            "bundle",
            "source",
            &[
                "/srv/a",
                "file:///srv/a",
                "https://x.example/a",
                "http://127.0.0.1/a",
                "s3://bucket/a",
                "gs://bucket/a",
                "az://box/a",
                "oci://x.example/a:7",
                "a.bundle",
                "ftp://x/y",
                "oci:x",
                "/a\nb",
                "",
            ],
        ),
        (
            "exceptions",
            "exception",
            "id",
            &["a", "-", "9.a_b", "a:b", "a b", "ä", "", &last, &beyond],
        ),
        ("exceptions", "exception", "reason", &lines),
        ("exceptions", "exception", "owner", &lines),
        ("exceptions", "exception", "paths", &paths),
        ("exceptions", "exception", "workspaces", &paths),
        ("exceptions", "exception", "tools", &filled),
        ("exceptions", "exception", "agents", &filled),
        (
            "exceptions",
            "exception",
            "policies",
            &["abc", "user:abc", " ", ""],
        ),
        ("exceptions", "exception", "entities", &["abc", " ", ""]),
        (
            "exceptions",
            "exception",
            "sessions",
            &[
                "a", "unknown", "unknown2", &blank, " unknown", "a b", "a\nb", " ", "",
            ],
        ),
        (
            "exceptions",
            "exception",
            "commands",
            &[
                "git",
                "git push",
                " git  push ",
                "git a/b",
                "git push -f",
                "/usr/bin/git",
                "git *",
                "g?t",
                " ",
                "",
            ],
        ),
        (
            "exceptions",
            "exception",
            "hosts",
            &[
                "a.example",
                "*.a.example",
                "A",
                "*",
                "*.",
                "*.*.a",
                ".a",
                "a b",
                "a/b",
                "a@b",
                "a\\b",
                "a?",
                "a.",
                "",
                " ",
            ],
        ),
    ] {
        let documents = documents();
        let document = documents.iter().find(|one| one.name == document).unwrap();
        let places = places(document);
        let place = places
            .iter()
            .find(|place| {
                place
                    .above
                    .last()
                    .is_some_and(|(_, name, _)| *name == table)
            })
            .unwrap();
        let shape = &place.table.fields.iter().find(|one| one.name == field);
        let list = matches!(shape.unwrap().shape, Shape::Texts(_) | Shape::Several(_));
        for value in values {
            let text = toml::Value::String((*value).to_owned());
            let text = format!("{:#}", serde_json::to_value(text).unwrap());
            let text = if list { format!("[{text}]") } else { text };
            let said = place.say(field, &text);
            let taken = said.toml().is_empty();
            seen.insert((field, taken));
            assert_eq!(
                taken,
                said.errors.is_empty(),
                "{document:?} {field} = {text}: {:?}",
                said.problems,
                document = document.name,
            );
        }
    }
    assert_eq!(seen.len(), 2 * 19, "{seen:?}");
}

#[test]
fn a_moment_is_a_day_or_a_time_with_a_zone() {
    let documents = documents();
    let document = documents.iter().find(|one| one.name == "exceptions");
    let places = places(document.unwrap());
    let place = places.last().unwrap();
    let day = day();
    for (value, taken) in [
        (day.clone(), true),
        (format!("{day}T18:00:00Z"), true),
        (format!("{day} 18:00:00.5+01:00"), true),
        (format!("{day}T18:00:00"), false),
        ("18:00:00".to_owned(), false),
    ] {
        let said = place.say("expires", &value);
        assert_eq!(
            said.toml().is_empty(),
            taken,
            "{value}: {:?}",
            said.problems
        );
        assert_eq!(said.errors.is_empty(), taken, "{value}: {:?}", said.errors);
    }
    // An editor cannot tell a text from a date. The reader can.
    let said = place.say("expires", &format!("\"{day}\""));
    assert_ne!(said.toml(), [""; 0]);
    assert_eq!(said.errors, [""; 0]);
}
