//! The compact form of a policy is the policy: nothing is lost on the way there and back.

use copilot_bridge::engine::codec::{Decoder, encode};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::cases;

/// A text as Cedar writes it. `star` is how a literal `*` looks, which differs in patterns.
fn escaped(text: &str, star: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '*' => out.push_str(star),
            c if c.is_control() => out.push_str(&format!("\\u{{{:x}}}", u32::from(c))),
            c => out.push(c),
        }
    }
    out
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", escaped(text, "*"))
}

fn text() -> impl Strategy<Value = String> {
    vec(
        prop_oneof![
            select(vec![
                'a', 'b', '*', '"', '\\', '\n', '\0', ' ', 'é', '😀', '\u{202e}', '{'
            ]),
            any::<char>(),
        ],
        0..6,
    )
    .prop_map(String::from_iter)
}

fn string() -> impl Strategy<Value = String> {
    text().prop_map(|text| quoted(&text))
}

/// Wildcards and literal stars.
fn like() -> impl Strategy<Value = String> {
    vec(prop_oneof![Just(None), text().prop_map(Some)], 0..4).prop_map(|parts| {
        let parts: String = parts
            .into_iter()
            .map(|part| part.map_or_else(|| "*".to_owned(), |text| escaped(&text, "\\*")))
            .collect();
        format!("\"{parts}\"")
    })
}

fn type_name() -> impl Strategy<Value = &'static str> {
    select(vec!["A", "Bridge::Path", "a::b::C", "Long_1", "_x"])
}

fn entity() -> impl Strategy<Value = String> {
    (type_name(), string()).prop_map(|(ty, id)| format!("{ty}::{id}"))
}

fn expression() -> BoxedStrategy<String> {
    let leaf = prop_oneof![
        select(vec![
            "true",
            "false",
            "principal",
            "action",
            "resource",
            "context"
        ])
        .prop_map(str::to_owned),
        any::<i64>().prop_map(|n| n.to_string()),
        select(vec![i64::MIN, i64::MAX, 0, -1]).prop_map(|n| n.to_string()),
        string(),
        entity(),
        select(vec![
            "ip(\"10.0.0.0/8\")",
            "decimal(\"1.5\")",
            "datetime(\"2024-10-15\")"
        ])
        .prop_map(str::to_owned),
        select(vec!["duration(\"1d2h\")", "ip(\"::1\")"]).prop_map(str::to_owned),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        let one = || inner.clone().prop_map(|text| format!("({text})"));
        let methods = select(vec![
            "contains",
            "containsAll",
            "containsAny",
            "getTag",
            "hasTag",
            "isInRange",
            "offset",
            "durationSince",
            "lessThan",
            "lessThanOrEqual",
            "greaterThan",
            "greaterThanOrEqual",
        ]);
        let askers = select(vec![
            "isEmpty",
            "isIpv4",
            "isIpv6",
            "isLoopback",
            "isMulticast",
            "toDate",
            "toTime",
            "toMilliseconds",
            "toSeconds",
            "toMinutes",
            "toHours",
            "toDays",
        ]);
        let binary = select(vec![
            "==", "!=", "<", "<=", ">", ">=", "&&", "||", "+", "-", "*", "in",
        ]);
        let unary = select(vec![
            "!", "-", "!!", "--", "-!", "ip", "decimal", "datetime", "duration",
        ]);
        prop_oneof![
            (unary, one()).prop_map(|(op, x)| format!("{op}{x}")),
            (one(), binary, one()).prop_map(|(l, op, r)| format!("{l} {op} {r}")),
            (one(), methods, one()).prop_map(|(l, name, r)| format!("{l}.{name}({r})")),
            (one(), askers).prop_map(|(x, name)| format!("{x}.{name}()")),
            (one(), one(), one()).prop_map(|(c, t, e)| format!("if {c} then {t} else {e}")),
            (one(), string()).prop_map(|(x, attr)| format!("{x}[{attr}]")),
            one().prop_map(|x| format!("{x}.attr.other")),
            (one(), select(vec!["a", "a.b", "a.b.c", "\"a b\"", "\"\""]))
                .prop_map(|(x, attr)| format!("{x} has {attr}")),
            (one(), like()).prop_map(|(x, pattern)| format!("{x} like {pattern}")),
            (one(), type_name()).prop_map(|(x, ty)| format!("{x} is {ty}")),
            (one(), type_name(), one()).prop_map(|(x, ty, e)| format!("{x} is {ty} in {e}")),
            vec(one(), 0..3).prop_map(|all| format!("[{}]", all.join(", "))),
            proptest::collection::btree_map(text(), one(), 0..3).prop_map(|all| {
                let fields: Vec<String> = all
                    .into_iter()
                    .map(|(name, value)| format!("{}: {value}", quoted(&name)))
                    .collect();
                format!("{{{}}}", fields.join(", "))
            }),
        ]
    })
    .boxed()
}

fn scope(name: &'static str) -> impl Strategy<Value = String> {
    prop_oneof![
        Just(name.to_owned()),
        entity().prop_map(move |e| format!("{name} == {e}")),
        entity().prop_map(move |e| format!("{name} in {e}")),
        type_name().prop_map(move |ty| format!("{name} is {ty}")),
        (type_name(), entity()).prop_map(move |(ty, e)| format!("{name} is {ty} in {e}")),
    ]
}

fn action() -> impl Strategy<Value = String> {
    let one = || string().prop_map(|id| format!("Bridge::Action::{id}"));
    prop_oneof![
        Just("action".to_owned()),
        one().prop_map(|e| format!("action == {e}")),
        one().prop_map(|e| format!("action in {e}")),
        vec(one(), 0..3).prop_map(|all| format!("action in [{}]", all.join(", "))),
    ]
}

fn policy() -> impl Strategy<Value = String> {
    let clause = (select(vec!["when", "unless"]), expression())
        .prop_map(|(word, text)| format!(" {word} {{ {text} }}"));
    (
        select(vec!["permit", "forbid"]),
        scope("principal"),
        action(),
        scope("resource"),
        vec(clause, 0..3),
    )
        .prop_map(|(effect, who, what, which, clauses)| {
            format!("{effect}({who}, {what}, {which}){};", clauses.concat())
        })
}

fn decode(
    bytes: &[u8],
    id: &str,
) -> Result<cedar_policy::Policy, copilot_bridge::engine::codec::CodecError> {
    Decoder::default().policy(bytes, id)
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn a_policy_survives_the_round_trip(text in policy()) {
        // Cedar itself refuses some, such as `ip()` of something that is no address.
        let Ok(before) = text.parse::<cedar_policy::Policy>() else {
            return Err(TestCaseError::reject("no policy"));
        };
        let tree = before.to_pst().unwrap();
        let bytes = encode(tree.body()).map_err(|error| TestCaseError::fail(error.0))?;
        let decoded = decode(&bytes, "renamed").map_err(|error| TestCaseError::fail(error.0))?;
        let after = decoded.to_pst().unwrap();
        prop_assert_eq!(tree.body().effect, after.body().effect);
        prop_assert_eq!(&tree.body().principal, &after.body().principal);
        prop_assert_eq!(&tree.body().action, &after.body().action);
        prop_assert_eq!(&tree.body().resource, &after.body().resource);
        prop_assert_eq!(tree.body().clauses(), after.body().clauses());
        prop_assert_eq!(encode(after.body()).unwrap(), bytes);
        prop_assert_eq!(decoded.to_json().unwrap(), before.to_json().unwrap());
    }

    #[test]
    fn damaged_bytes_never_panic(
        text in policy(), at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<bool>(),
    ) {
        if let Ok(policy) = text.parse::<cedar_policy::Policy>() {
            let mut bytes = encode(policy.to_pst().unwrap().body()).unwrap();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            if cut {
                bytes.truncate(at);
            }
            let _ = decode(&bytes, "damaged");
        }
    }

    #[test]
    fn no_bytes_make_the_decoder_panic(bytes in vec(any::<u8>(), 0..200)) {
        let _ = decode(&bytes, "garbage");
    }
}
