//! What packs may say, and what is underlined when they say something else.

use crate::engine::redaction::{Redactor, find};
use crate::policy::testing::{PERMIT, check, shown};

const HEAD: &str = "format = 1\npack = 'p'\n";

/// A rule that finds `tok_` and eight digits.
const TOKEN: &str = "[[rule]]\nid = 'tok'\ndescription = 'A token.'\nseverity = 'high'\ntoken = { prefix = ['tok_'], chars = 'digit', length = [8, 8] }\n";

fn problems(text: &str) -> Vec<String> {
    let checked = check(&[("p.cedar", PERMIT), ("redaction/p.toml", text)], &[]);
    shown(&checked.problems)
}

/// The problems of a rule with those lines instead of the token's form.
fn of_rule(lines: &str) -> Vec<String> {
    let rule = "[[rule]]\nid = 'r'\ndescription = 'x'\nseverity = 'low'\n";
    problems(&format!("{HEAD}{rule}{lines}"))
}

#[test]
fn a_pack_finds_what_its_rules_say() {
    let checked = check(
        &[
            ("p.cedar", PERMIT),
            ("redaction/p.toml", &format!("{HEAD}{TOKEN}")),
        ],
        &[],
    );
    let redaction = checked.bundle.unwrap().settings.redaction;
    assert!(redaction.phi.is_empty());
    let rules = redaction.secrets.open().unwrap();
    let sets = [&rules];
    let redacted = Redactor::new(&sets, b"k").text("a=tok_12345678;").unwrap();
    assert!(
        redacted.value.starts_with("a=«redacted:tok#"),
        "{}",
        redacted.value
    );
    assert_eq!((redacted.hits.len(), redacted.hits[0].count), (1, 1));
}

#[test]
fn everything_wrong_with_a_rule_is_underlined() {
    for (lines, expected) in [
        (
            "",
            "missing-key [[[rule]]] the rule does not say what its secret looks like",
        ),
        (
            "pattern = 'abc'\nuserinfo = {}",
            "bad-value [{}] a rule has one form: this one has `pattern` and `userinfo`",
        ),
        (
            "pattern = '('\nkeywords = ['abc']",
            "bad-pattern ['('] this is no regular expression: unclosed group",
        ),
        (
            "pattern = 'a*'\nkeywords = ['abc']",
            "bad-pattern ['a*'] it matches the empty text",
        ),
        (
            "pattern = '(?:(?:a{100}){100}){1000}'\nkeywords = ['abc']",
            "bad-pattern ['(?:(?:a{100}){100}){1000}'] it needs more than 4 MiB when it is compiled",
        ),
        (
            "pattern = 'abc'",
            "missing-key [[[rule]]] the rule needs `keywords` of at least 3 bytes",
        ),
        (
            "pattern = 'abc'\nkeywords = ['ab']",
            "bad-value ['ab'] a keyword has at least 3 bytes: a shorter one occurs everywhere",
        ),
        (
            "pattern = 'abc'\nkeywords = ['Abc']",
            "bad-value ['Abc'] a keyword is ASCII in lower case; it is found in any case",
        ),
        (
            "token = { prefix = ['ab'], chars = 'digit', length = [1, 2] }",
            "missing-key [[[rule]]] the rule needs `keywords` of at least 3 bytes",
        ),
        (
            "token = { prefix = ['abc'], chars = 'digits', length = [1, 2] }",
            "bad-value ['digits'] `digits` is no set of bytes",
        ),
        (
            "token = { prefix = ['abc'], chars = 'digit', length = [3, 2] }",
            "bad-value [[3, 2]] a length is at least 1, and its second number is not below its first (0: no bound)",
        ),
        (
            "token = { prefix = ['abc'], chars = 'digit', length = 3 }",
            "bad-value [3] `length` is two whole numbers between 0 and 1048576",
        ),
        (
            "token = { prefix = [''], chars = 'digit', length = [1, 2] }",
            "bad-value [''] `prefix` holds an empty text",
        ),
        (
            "token = { prefix = ['abc'], chars = 'digit', length = [1, 2], sufix = [] }",
            "unknown-key [sufix] unknown key `sufix`",
        ),
        (
            "userinfo = {}\nrequire = ['[']",
            "bad-value ['['] `[` is no set of bytes",
        ),
        (
            "userinfo = {}\nallow_patterns = ['*']",
            "bad-pattern ['*'] this is no regular expression: repetition operator missing expression",
        ),
        (
            "userinfo = {}\nchecksum = 'crc'",
            "bad-value ['crc'] `crc` is no value of `checksum`",
        ),
        (
            "userinfo = {}\nexamples = ['x://a:b@c']",
            "bad-value ['x://a:b@c'] the example does not say what is secret",
        ),
        (
            "userinfo = {}\nexamples = ['x://a:<<{hex:12}>>@c', 'x://a:<<>>@c <<y>>']",
            "failed-example ['x://a:<<>>@c <<y>>'] not every secret of this example is found: x://a:@c y",
        ),
        (
            "userinfo = {}\ncounterexamples = ['x://a:{digit:3}@c']",
            "failed-example ['x://a:{digit:3}@c'] the rule `r` finds something in this counterexample",
        ),
    ] {
        assert_eq!(of_rule(lines).join("|"), expected, "{lines}");
    }
}

#[test]
fn everything_wrong_with_a_pack_is_underlined() {
    for (text, expected) in [
        ("format = 1", "missing-key [] `pack` is missing"),
        ("format = 1\npack = ''", "bad-value [''] `pack` is empty"),
        (
            "format = 1\npack = 'p'\npurpose = 'fun'",
            "bad-value ['fun'] `fun` is no value of `purpose`",
        ),
        (
            "format = 1\npack = 'p'\n[allow]\npatterns = ['x*']",
            "bad-pattern ['x*'] it matches the empty text",
        ),
        (
            "format = 1\npack = 'p'\n[[rule]]\nid = 'A b'",
            "missing-key [[[rule]]] `description` is missing|missing-key [[[rule]]] `severity` is missing|missing-key [[[rule]]] the rule does not say what its secret looks like|bad-value ['A b'] `A b` is no id of a rule",
        ),
    ] {
        assert_eq!(problems(text).join("|"), expected, "{text}");
    }
}

#[test]
fn layers_add_and_never_replace() {
    let user = [
        ("p.cedar", PERMIT),
        ("redaction/p.toml", &format!("{HEAD}{TOKEN}")),
    ];
    let other = TOKEN.replace("'tok", "'key");
    let more = format!("format = 1\npack = 'q'\n{other}");
    let checked = check(&user, &[("redaction/q.toml", &more)]);
    let rules = checked.bundle.unwrap().settings.redaction.secrets.open();
    assert_eq!(rules.unwrap().len(), 2);

    let again = format!("format = 1\npack = 'q'\n{TOKEN}");
    let checked = check(&user, &[("redaction/q.toml", &again)]);
    assert_eq!(
        shown(&checked.problems),
        ["duplicate-id ['tok'] there is another rule `tok`"]
    );
    let help = checked.problems[0].help.as_deref();
    assert_eq!(help, Some("the other one is at user/redaction/p.toml:4:6"));

    let checked = check(&user, &[("redaction/q.toml", HEAD)]);
    assert_eq!(
        shown(&checked.problems),
        ["duplicate-id ['p'] there is another pack `p`"]
    );
}

#[test]
fn a_pack_that_is_off_can_be_switched_on_below() {
    let pack = format!("{HEAD}enabled = false\n{TOKEN}");
    let user = [("p.cedar", PERMIT), ("redaction/p.toml", &pack)];
    let rules = |workspace: &[(&str, &str)]| {
        let checked = check(&user, workspace);
        let shown = shown(&checked.problems);
        let bundle = checked.bundle.ok_or(shown)?;
        Ok::<_, Vec<String>>(bundle.settings.redaction.secrets.open().unwrap().len())
    };
    assert_eq!(rules(&[]), Ok(0));
    let on = "format = 1\n[redaction]\npacks = ['p']";
    assert_eq!(rules(&[("bridge.toml", on)]), Ok(1));
    let unknown = "format = 1\n[redaction]\npacks = ['q']";
    assert_eq!(
        rules(&[("bridge.toml", unknown)]),
        Err(vec!["bad-value ['q'] there is no pack `q`".to_owned()])
    );
}

#[test]
fn health_information_is_packed_apart() {
    let pack = format!("{HEAD}purpose = 'phi'\n{TOKEN}");
    let checked = check(&[("p.cedar", PERMIT), ("redaction/p.toml", &pack)], &[]);
    let redaction = checked.bundle.unwrap().settings.redaction;
    assert!(redaction.secrets.is_empty());
    let (secrets, phi) = (
        redaction.secrets.open().unwrap(),
        redaction.phi.open().unwrap(),
    );
    assert_eq!(find(&[&secrets, &phi], "tok_12345678").unwrap().len(), 1);
}

#[test]
fn the_digest_covers_packs() {
    let digest = |text: &str| {
        let files = [("p.cedar", PERMIT), ("redaction/p.toml", text)];
        check(&files, &[]).bundle.unwrap().digest
    };
    let pack = format!("{HEAD}{TOKEN}");
    assert_ne!(digest(&pack), digest(&format!("{pack}\n")));
}
