//! `redaction/*.toml`

use super::Document;
use super::shape::{Field, Shape, Table, field, flag, format, texts};
use crate::policy::settings::redaction::rule::{BLOCK, RULE, TOKEN, USERINFO, VALUE};
use crate::policy::settings::redaction::{ALLOW, KEYS};

/// No secret is longer, in bytes.
const LONGEST: u32 = 1 << 20;

pub(super) fn document() -> Document {
    Document {
        name: "redaction",
        files: "redaction/*.toml",
        about: "A pack of rules that say what is a secret, or health information.",
        root: Table::new(
            KEYS,
            [
                format(),
                field("pack", Shape::Filled, "The name of the pack.").required(),
                field(
                    "purpose",
                    Shape::Choice(vec!["secrets", "phi"]),
                    "What it finds: what `redact:secrets` takes out, or what `redact:phi` does.",
                )
                .default("secrets"),
                field(
                    "enabled",
                    Shape::Flag,
                    "Whether it is on without being switched on in `bridge.toml`.",
                )
                .default(true),
                field(
                    "allow",
                    Shape::Table(allow()),
                    "What is no secret, whatever rule of the pack found it.",
                ),
                field(
                    "rule",
                    Shape::Tables(rule()),
                    "One kind of secret. docs/redaction.md explains the form.",
                ),
            ],
        ),
    }
}

fn allow() -> Table {
    Table::new(
        ALLOW,
        [
            texts("exact", "Whole secrets, in any case."),
            texts("values", "Texts that stand in the secret, in any case."),
            texts("patterns", "Expressions that match the secret."),
        ],
    )
}

fn rule() -> Table {
    Table::new(RULE, rule_keys()).with_one_of(&[
        "token", "value", "pattern", "block", "userinfo", "words", "fields",
    ])
}

fn rule_keys() -> [Field; 22] {
    let table = |name, table, about| field(name, Shape::Table(table), about);
    [
        field(
            "id",
            Shape::Form("^[a-z0-9-]{1,80}$"),
            "The name of the rule: small letters, digits and `-`.",
        )
        .required(),
        field(
            "description",
            Shape::Filled,
            "What it finds, in a sentence.",
        )
        .required(),
        field(
            "severity",
            Shape::Choice(vec!["low", "medium", "high", "critical"]),
            "How bad it is if it gets out.",
        )
        .required(),
        field("kind", Shape::Text, "What the placeholder calls it."),
        field(
            "keywords",
            Shape::Texts(Box::new(Shape::Form(r"^[\x00-@\[-\x7f]{3,}$"))),
            "Texts one of which has to occur for the rule to be looked at, in lower case.",
        ),
        table(
            "token",
            token(),
            "A beginning and a run of bytes, with nothing of a word beside it.",
        ),
        table(
            "value",
            value(),
            "What stands behind a name and an operator.",
        ),
        field(
            "pattern",
            Shape::Text,
            "An expression whose group `secret` is the secret: the dearest form.",
        ),
        table("block", block(), "A text between a first and a last line."),
        table("userinfo", userinfo(), "The password of an address."),
        field("words", some(), "Whole words."),
        field(
            "fields",
            some(),
            "Names of fields in a document, whose values are secret.",
        ),
        field(
            "entropy",
            Shape::Fraction,
            "The least entropy of the secret, in bits for each byte.",
        ),
        field(
            "checksum",
            Shape::Choice(vec!["luhn", "npi", "mbi"]),
            "The checksum that has to be right.",
        ),
        texts(
            "require",
            "Sets of bytes, of each of which the secret has one.",
        ),
        texts(
            "allow",
            "Texts that stand in what is no secret, in any case.",
        ),
        texts(
            "allow_patterns",
            "Expressions that match what is no secret.",
        ),
        texts("not_before", "Texts in front of which it is no secret."),
        texts("not_after", "Texts behind which it is no secret."),
        flag(
            "case_sensitive",
            "Whether words, and the beginning of a token, count in this case only.",
        ),
        texts(
            "examples",
            "Texts with a secret between `<<` and `>>`; `{alnum:36}` stands for that many bytes of a class.",
        ),
        texts("counterexamples", "Texts in which the pack finds nothing."),
    ]
}

fn token() -> Table {
    Table::new(
        TOKEN,
        [
            field("prefix", some(), "How it begins: one of these.").required(),
            chars("chars", "What follows.").required(),
            length().required(),
            texts("suffix", "How it ends: one of these."),
        ],
    )
}

fn value() -> Table {
    Table::new(
        VALUE,
        [
            field("names", some(), "The names in front of it.").required(),
            texts("not_names", "Names that end like these, and are none."),
            chars("chars", "The bytes of the value.").required(),
            chars("quoted", "Its bytes where it stands in quotes."),
            length().required(),
        ],
    )
}

fn block() -> Table {
    Table::new(
        BLOCK,
        [
            field("begin", some(), "How the first line begins: one of these.").required(),
            field(
                "contains",
                Shape::Text,
                "What the first line holds as well.",
            )
            .default(""),
            field("end", Shape::Filled, "How the last line begins.").required(),
        ],
    )
}

fn userinfo() -> Table {
    Table::new(USERINFO, [length()])
}

fn length() -> Field {
    field(
        "length",
        Shape::Pair(0..=LONGEST),
        "The least and the greatest number of bytes; 0 for no bound above.",
    )
}

fn chars(name: &'static str, about: &'static str) -> Field {
    let form = r"^(digit|hex|lower|upper|letter|alnum|word|base64|base64url|base32|\[.+\])$";
    field(name, Shape::Form(form), about)
}

/// A list with an entry, none of which is empty.
fn some() -> Shape {
    Shape::Several(Box::new(Shape::Filled))
}
