mod forms;

use std::collections::BTreeSet;
use std::ops::Range;

use jiff::{SignedDuration, Timestamp};
use jsonschema::Validator;
use serde_json::Value;

use super::*;
use crate::keys::SigningKey;
use crate::policy::diagnostic::{Code, Problem};
use crate::policy::layer::Layer;
use crate::policy::source::{EMBEDDED, Source};
use crate::workbench::suite::Suite;

/// Words, of which each form of a text takes one. Exceptions find policies and an entity of such names.
const SAMPLES: [&str; 4] = ["alnum", "/abc", "abc", "https://abc.example"];

const ENTITIES: &str = "format = 1\n[[entity]]\nname = \"abc\"\naliases = [\"alnum\"]\n";

/// A key of a table of a document, and how to write it.
struct Place<'d> {
    document: &'d Document,
    /// The tables above, the outermost first, and whether each is a list of tables.
    above: Vec<(&'d Table, &'static str, bool)>,
    table: &'d Table,
}

/// What reader and schema say of a text.
struct Said {
    problems: Vec<Problem>,
    /// What is wrong by the schema: pointers.
    errors: Vec<String>,
}

#[test]
fn the_committed_schemas_are_what_the_program_says() {
    let written: Vec<(String, String)> = documents()
        .iter()
        .map(|document| (format!("{DIR}/{}.json", document.name), text(document)))
        .collect();
    let committed: Vec<(String, String)> = FILES
        .iter()
        .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
        .collect();
    assert_eq!(
        committed, written,
        "write them: `copilot-bridge schema policy --into schemas/policy`"
    );
}

#[test]
fn every_key_of_the_reader_is_described_and_no_other() {
    for document in documents() {
        for place in places(&document) {
            let keys: BTreeSet<&str> = place.table.keys.iter().map(|key| key.name).collect();
            let fields: Vec<&str> = place.table.fields.iter().map(|field| field.name).collect();
            assert_eq!(keys, fields.iter().copied().collect(), "{}", place.name());
            assert_eq!(
                keys.len(),
                fields.len(),
                "{}: one is there twice",
                place.name()
            );
            for field in &place.table.fields {
                assert!(
                    field.about.ends_with('.'),
                    "{}: {}",
                    place.name(),
                    field.name
                );
            }
            // And these are the keys that the reader itself names.
            let said = place.say("zzzz_qqqq", "1");
            let unknown = said
                .problem(Code::UnknownKey)
                .unwrap_or_else(|| panic!("{}", place.name()));
            assert_eq!(unknown.underlined(), Some("zzzz_qqqq"));
            assert_eq!(words(unknown.help.as_deref().unwrap_or_default()), keys);
            assert!(
                !said.errors.is_empty(),
                "{}: the schema takes any key",
                place.name()
            );
        }
    }
}

#[test]
fn what_is_required_is_required_by_both() {
    for document in documents() {
        for place in places(&document) {
            let whole = place.with(&[]);
            assert_eq!(
                whole.missing(),
                [""; 0],
                "{}: {:?}",
                place.name(),
                whole.problems
            );
            assert_eq!(whole.errors, [""; 0], "{}", place.name());
            for field in place.table.fields.iter().filter(|field| field.required) {
                let said = place.without(field.name);
                assert_eq!(said.missing(), [field.name], "{}", place.name());
                assert!(!said.errors.is_empty(), "{}: {}", place.name(), field.name);
            }
        }
    }
}

#[test]
fn wrong_values_are_refused_by_both() {
    let mut tried = 0;
    each_field(&mut |place, field| {
        for value in [
            "7",
            "0.5",
            "\"€\"",
            "true",
            "[7]",
            "[true, true]",
            "{ zzzz = 1 }",
        ] {
            if fits(&field.shape, value) {
                continue;
            }
            tried += 1;
            place.refused(field, value);
        }
        for value in bad(&field.shape) {
            tried += 1;
            place.refused(field, &value);
        }
    });
    assert!(tried > 500, "{tried}");
}

#[test]
fn right_values_are_taken_by_both() {
    let mut tried = 0;
    each_field(&mut |place, field| {
        for value in good(&field.shape) {
            tried += 1;
            let companion = match field.name {
                "retries" => Some(("handling", "\"retry\"")),
                "only" => Some(("policies", "[\"a\"]")),
                "recoverable" => Some(("error", "\"abc\"")),
                "handling" if place.document.name == "tests" => Some(("error", "\"abc\"")),
                "seed_mirror" | "xpia_mirror" => Some(("mirrors", "[\"seed\", \"xpia\"]")),
                _ => None,
            };
            let pairs = [(field.name, value.as_str())];
            let said = place.with(&pairs.into_iter().chain(companion).collect::<Vec<_>>());
            let name = format!("{}: {} = {value}", place.name(), field.name);
            assert_eq!(said.at(&said.span(field.name, &value)), None, "{name}");
            assert_eq!(said.errors_at(field.name), [""; 0], "{name}");
        }
    });
    assert!(tried > 100, "{tried}");
}

#[test]
fn words_and_bounds_are_those_of_the_reader() {
    each_field(&mut |place, field| {
        let name = format!("{}: {}", place.name(), field.name);
        let (shape, wrap) = match &field.shape {
            Shape::Texts(entry) | Shape::Several(entry) => (entry.as_ref(), true),
            shape => (shape, false),
        };
        let value = match shape {
            Shape::Choice(_) => "\"zzzz\"".to_owned(),
            Shape::Number(range) if *range.end() < u32::MAX => (range.end() + 1).to_string(),
            _ => return,
        };
        let value = if wrap { format!("[{value}]") } else { value };
        let said = place.say(field.name, &value);
        let problem = said.at(&said.span(field.name, &value)).expect(&name);
        match shape {
            Shape::Choice(known) => assert_eq!(
                words(problem.help.as_deref().unwrap_or_default()),
                known.iter().copied().collect::<BTreeSet<_>>(),
                "{name}"
            ),
            Shape::Number(range) => {
                let bounds = format!("between {} and {}", range.start(), range.end());
                assert!(
                    problem.message.contains(&bounds),
                    "{name}: {}",
                    problem.message
                );
            }
            _ => {}
        }
    });
}

#[test]
fn what_only_the_whole_table_shows_is_refused_by_both() {
    let error = "format = 1\n[[error]]\nclass = \"a\"\n";
    let key = key();
    let approver = format!("format = 1\n[[approver]]\nname = \"ann\"\nkey = \"{key}\"\n");
    let exception = format!(
        "format = 1\n[[exception]]\nid = \"a\"\npolicies = [\"abc\"]\nreason = \"a\"\nowner = \"a\"\nexpires = {}\n",
        day()
    );
    let rule = "format = 1\npack = \"p\"\n[[rule]]\nid = \"a\"\ndescription = \"a\"\nseverity = \"low\"\nkeywords = [\"abc\"]\n";
    for (name, good, bad) in [
        (
            "bridge",
            format!("{error}handling = \"retry\"\nretries = 1\n"),
            format!("{error}handling = \"retry\"\n"),
        ),
        (
            "bridge",
            format!("{error}handling = \"skip\"\n"),
            format!("{error}handling = \"skip\"\nretries = 1\n"),
        ),
        (
            "bridge",
            "format = 1\n[audit]\nmirrors = [\"seed\"]\nseed_mirror = \"/var/seed\"\n".to_owned(),
            "format = 1\n[audit]\nmirrors = [\"xpia\"]\nseed_mirror = \"/var/seed\"\n".to_owned(),
        ),
        (
            "redaction",
            format!("{rule}words = [\"abc\"]\n"),
            rule.to_owned(),
        ),
        (
            "redaction",
            format!("{rule}words = [\"abc\"]\n"),
            format!("{rule}words = [\"abc\"]\nfields = [\"abc\"]\n"),
        ),
        (
            "exceptions",
            format!("{exception}tools = [\"bash\"]\n"),
            exception.clone(),
        ),
        (
            "exceptions",
            format!("{exception}tools = [\"bash\"]\nhosts = [\"a.example\"]\n"),
            format!("{exception}hosts = [\"a.example\"]\npaths = [\"/a\"]\n"),
        ),
        (
            "exceptions",
            format!("{exception}paths = [\"/a\"]\n"),
            format!("{exception}commands = [\"git\"]\npaths = [\"/a\"]\n"),
        ),
        (
            "exceptions",
            format!("{exception}commands = [\"git\"]\n"),
            format!("{exception}commands = [\"git\"]\nhosts = [\"a.example\"]\n"),
        ),
        (
            "approvers",
            approver.clone(),
            approver.replace("ed25519:", "ed25519:A"),
        ),
    ] {
        let documents = documents();
        let document = documents
            .iter()
            .find(|document| document.name == name)
            .unwrap();
        let said = Said::of(document, &good);
        assert_eq!(said.toml(), [""; 0], "{good}");
        assert_eq!(said.errors, [""; 0], "{good}");
        let said = Said::of(document, &bad);
        assert_ne!(said.toml(), [""; 0], "{bad}");
        assert_ne!(said.errors, [""; 0], "{bad}");
    }
}

#[test]
fn the_default_policies_are_in_order_and_name_their_schemas() {
    for (name, text) in EMBEDDED.iter().filter(|(name, _)| name.ends_with(".toml")) {
        let (stem, up) = match name.split_once('/') {
            Some((folder, _)) => (folder, "../"),
            None => (name.trim_end_matches(".toml"), ""),
        };
        let documents = documents();
        let document = documents
            .iter()
            .find(|document| document.name == stem)
            .unwrap();
        assert_eq!(errors(document, text), [""; 0], "{name}");
        let line = text.lines().next().unwrap();
        assert_eq!(line, format!("#:schema {up}{DIR}/{stem}.json"), "{name}");
    }
}

impl<'d> Place<'d> {
    fn name(&self) -> String {
        let names = self.above.iter().map(|(_, name, _)| *name);
        [self.document.name]
            .into_iter()
            .chain(names)
            .collect::<Vec<_>>()
            .join(".")
    }

    /// The document with that key in the table.
    fn say(&self, key: &str, value: &str) -> Said {
        self.with(&[(key, value)])
    }

    fn with(&self, pairs: &[(&str, &str)]) -> Said {
        Said::of(self.document, &self.write(pairs, ""))
    }

    fn without(&self, key: &str) -> Said {
        Said::of(self.document, &self.write(&[], key))
    }

    /// The tables above with what they have to have, then this one with these keys besides.
    fn write(&self, pairs: &[(&str, &str)], without: &str) -> String {
        let mut text = String::new();
        let mut header = Vec::new();
        let last = self.above.len();
        let tables = self
            .above
            .iter()
            .map(|(table, ..)| *table)
            .chain([self.table]);
        for (depth, table) in tables.enumerate() {
            if let Some((_, name, list)) =
                depth.checked_sub(1).and_then(|above| self.above.get(above))
            {
                header.push(*name);
                let header = header.join(".");
                text.push_str(&if *list {
                    format!("[[{header}]]\n")
                } else {
                    format!("[{header}]\n")
                });
            }
            let below = self.above.get(depth).map_or("", |(_, name, _)| *name);
            let pairs = if depth == last { pairs } else { &[] };
            let leave = if depth == last { without } else { "" };
            for (key, value) in pairs {
                text.push_str(&format!("{key} = {value}\n"));
            }
            let given = |name: &str| {
                pairs.iter().any(|(key, _)| *key == name) || name == below || name == leave
            };
            let mut wanted: Vec<&Field> =
                table.fields.iter().filter(|field| field.required).collect();
            for names in [table.one_of, table.some_of] {
                if !names.iter().any(|name| given(name)) {
                    let first = |field: &&Field| Some(&field.name) == names.first();
                    wanted.extend(table.fields.iter().find(first));
                }
            }
            for field in wanted.into_iter().filter(|field| !given(field.name)) {
                text.push_str(&format!("{} = {}\n", field.name, sample(&field.shape)));
            }
        }
        // An approval can take as many people only as there are.
        if self.name() == "approvers.approvals" {
            for number in 0..9 {
                let key = key();
                let approver = format!("[[approver]]\nname = \"a{number}\"\nkey = \"{key}\"\n");
                text.push_str(&approver);
            }
        }
        text
    }

    fn refused(&self, field: &Field, value: &str) {
        let said = self.say(field.name, value);
        let name = format!("{}: {} = {value}", self.name(), field.name);
        let problem = said.at(&said.span(field.name, value));
        // What is empty counts as missing.
        assert!(
            problem.is_some() || said.missing().contains(&field.name),
            "the reader takes {name}: {:?}",
            said.problems
        );
        assert_ne!(
            said.errors_at(field.name),
            [""; 0],
            "the schema takes {name}"
        );
    }
}

impl Said {
    fn of(document: &Document, text: &str) -> Self {
        let file = document.files.replace('*', "x");
        let mut files = vec![(file, text.to_owned())];
        if document.name == "exceptions" {
            // What the samples name.
            files.extend([
                ("a.cedar".to_owned(), policies()),
                ("entities.toml".to_owned(), ENTITIES.to_owned()),
            ]);
        }
        let source = Source::new(Layer::User, "p", files);
        let problems = if document.name == "bundle" {
            bundle::tests::problems(text)
        } else if document.name == "tests" {
            // What an event of a host means is not for the schema to say.
            let parse = |_: Option<&str>, _, _: &Value| Err("no event".to_owned());
            Suite::load(&source.files, &parse).err().unwrap_or_default()
        } else {
            crate::policy::check_sources(&[source]).problems
        };
        Self {
            problems,
            errors: errors(document, text),
        }
    }

    fn problem(&self, code: Code) -> Option<&Problem> {
        self.problems.iter().find(|problem| problem.code == code)
    }

    /// The messages about the TOML file.
    fn toml(&self) -> Vec<&str> {
        let toml = self.problems.iter();
        let toml = toml.filter(|problem| problem.code != Code::MissingPolicies);
        toml.map(|problem| problem.message.as_str()).collect()
    }

    fn missing(&self) -> Vec<&str> {
        let missing = self
            .problems
            .iter()
            .filter(|problem| problem.code == Code::MissingKey);
        missing
            .filter_map(|problem| match problem.message.as_str() {
                "the file holds no test" => Some("test"),
                message => message.split('`').nth(1),
            })
            .filter(|name| *name != "keywords")
            .collect()
    }

    /// The bytes of the value.
    fn span(&self, key: &str, value: &str) -> Range<usize> {
        let line = format!("{key} = {value}\n");
        let file = self
            .problems
            .iter()
            .find_map(|problem| problem.file.as_ref());
        let start = file
            .and_then(|file| file.text.find(&line))
            .map_or(0, |at| at + key.len() + 3);
        start..start + value.len()
    }

    fn at(&self, span: &Range<usize>) -> Option<&Problem> {
        self.problems.iter().find(|problem| {
            problem
                .span
                .as_ref()
                .is_some_and(|found| found.start < span.end && span.start < found.end)
        })
    }

    /// What is wrong by the schema at or below that key.
    fn errors_at(&self, key: &str) -> Vec<&str> {
        // Of an entry that is a text or a table, only the entry is said to be neither.
        let either = |pointer: &str| {
            let parts: Vec<&str> = pointer.rsplit('/').collect();
            matches!(parts.as_slice(), [_, "files" | "entities", ..])
        };
        let below = |pointer: &&str| pointer.split('/').any(|part| part == key) || either(pointer);
        self.errors
            .iter()
            .map(String::as_str)
            .filter(below)
            .collect()
    }
}

fn errors(document: &Document, text: &str) -> Vec<String> {
    let schema = json(document);
    let validator: Validator = jsonschema::draft7::new(&schema).unwrap();
    let instance = as_editors_see(toml::from_str(text).unwrap());
    let errors = validator.iter_errors(&instance);
    errors
        .map(|error| error.instance_path().to_string())
        .collect()
}

/// TOML as taplo makes JSON of it: dates are texts.
fn as_editors_see(value: toml::Value) -> Value {
    match value {
        toml::Value::Datetime(time) => Value::String(time.to_string()),
        toml::Value::Array(all) => all.into_iter().map(as_editors_see).collect(),
        toml::Value::Table(all) => {
            let pairs = all.into_iter();
            pairs
                .map(|(name, value)| (name, as_editors_see(value)))
                .collect()
        }
        plain => serde_json::to_value(plain).unwrap(),
    }
}

/// A public key that nobody has the other half of.
fn key() -> String {
    SigningKey::generate().unwrap().public().to_string()
}

/// A day on which an exception may end without a warning.
fn day() -> String {
    let day = Timestamp::now() + SignedDuration::from_hours(100 * 24);
    day.strftime("%Y-%m-%d").to_string()
}

/// Policies that the samples of exceptions name.
fn policies() -> String {
    let policy =
        |id: &str| format!("@id(\"{id}\")\n@reason(\"a\")\nforbid(principal, action, resource);\n");
    ["alnum", "abc"].map(policy).concat()
}

fn matches(form: &str, word: &str) -> bool {
    let schema = json!({ "pattern": form });
    jsonschema::draft7::is_valid(&schema, &json!(word))
}

fn places(document: &Document) -> Vec<Place<'_>> {
    fn walk<'d>(
        document: &'d Document,
        above: &[(&'d Table, &'static str, bool)],
        table: &'d Table,
        all: &mut Vec<Place<'d>>,
    ) {
        all.push(Place {
            document,
            above: above.to_vec(),
            table,
        });
        for field in &table.fields {
            let (inner, list) = match &field.shape {
                Shape::Table(inner) => (inner, false),
                Shape::Tables(inner) | Shape::Entries(inner) => (inner, true),
                _ => continue,
            };
            let mut deeper = above.to_vec();
            deeper.push((table, field.name, list));
            walk(document, &deeper, inner, all);
        }
    }
    let mut all = Vec::new();
    walk(document, &[], &document.root, &mut all);
    all
}

fn each_field(check: &mut dyn FnMut(&Place<'_>, &Field)) {
    for document in documents() {
        for place in places(&document) {
            for field in place
                .table
                .fields
                .iter()
                .filter(|field| field.name != "format")
            {
                check(&place, field);
            }
        }
    }
}

/// A value that both take.
fn sample(shape: &Shape) -> String {
    match shape {
        Shape::Format => FORMAT.to_string(),
        Shape::Text | Shape::Filled | Shape::Line(_) => "\"abc\"".to_owned(),
        Shape::Form(form) => {
            let key = key();
            let mut known = SAMPLES.into_iter().chain([key.as_str()]);
            format!("\"{}\"", known.find(|word| matches(form, word)).unwrap())
        }
        Shape::Moment => day(),
        Shape::Choice(words) => format!("\"{}\"", words[words.len() - 1]),
        Shape::Flag => "true".to_owned(),
        Shape::Number(range) => range.start().to_string(),
        Shape::Count => "1".to_owned(),
        Shape::Fraction => "2.5".to_owned(),
        Shape::Pair(_) => "[3, 9]".to_owned(),
        Shape::Texts(entry) | Shape::Several(entry) => format!("[{}]", sample(entry)),
        Shape::Table(table) => {
            let required = table.fields.iter().filter(|field| field.required);
            let pairs = required.map(|field| format!("{} = {}", field.name, sample(&field.shape)));
            format!("{{ {} }}", pairs.collect::<Vec<_>>().join(", "))
        }
        Shape::Tables(_) | Shape::Entries(_) => "[]".to_owned(),
        Shape::Lists | Shape::Free | Shape::Schemas => "{}".to_owned(),
    }
}

/// Whether a value has the right type and nothing else is asked of it.
fn fits(shape: &Shape, value: &str) -> bool {
    match shape {
        Shape::Text | Shape::Filled | Shape::Line(_) => value.starts_with('"'),
        // What bounds it stands elsewhere in the file.
        Shape::Count => value == "7",
        Shape::Flag => value == "true",
        Shape::Number(range) => value == "7" && range.contains(&7),
        Shape::Fraction => ["7", "0.5"].contains(&value),
        Shape::Free => value.starts_with('{'),
        _ => false,
    }
}

/// Values of the right type that are wrong all the same.
fn bad(shape: &Shape) -> Vec<String> {
    match shape {
        Shape::Filled | Shape::Line(_) => vec!["\"\"".to_owned()],
        Shape::Count => vec!["0".to_owned(), "-1".to_owned()],
        Shape::Choice(_) => vec!["\"zzzz\"".to_owned(), "\"\"".to_owned()],
        Shape::Number(range) => {
            let below = i64::from(*range.start()) - 1;
            let above = i64::from(*range.end()) + 1;
            vec![below.to_string(), above.to_string()]
        }
        Shape::Pair(range) => vec![
            "[1]".to_owned(),
            "[1, 2, 3]".to_owned(),
            format!("[1, {}]", range.end() + 1),
        ],
        Shape::Texts(entry) => bad(entry)
            .into_iter()
            .map(|value| format!("[{value}]"))
            .collect(),
        Shape::Several(entry) => {
            let entries = bad(entry).into_iter().map(|value| format!("[{value}]"));
            entries.chain(["[]".to_owned()]).collect()
        }
        _ => Vec::new(),
    }
}

/// Values that are right.
fn good(shape: &Shape) -> Vec<String> {
    match shape {
        Shape::Choice(words) => words.iter().map(|word| format!("\"{word}\"")).collect(),
        Shape::Flag => vec!["true".to_owned(), "false".to_owned()],
        Shape::Number(range) => vec![range.start().to_string(), range.end().to_string()],
        Shape::Fraction => vec!["1".to_owned(), "0.25".to_owned()],
        Shape::Form(_) | Shape::Pair(_) | Shape::Line(_) | Shape::Count => vec![sample(shape)],
        Shape::Moment => vec![day(), format!("{}T18:00:00+01:00", day())],
        Shape::Texts(entry) | Shape::Several(entry) => match entry.as_ref() {
            Shape::Choice(_) => good(entry)
                .into_iter()
                .map(|value| format!("[{value}]"))
                .collect(),
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

/// What stands in backticks.
fn words(text: &str) -> BTreeSet<&str> {
    text.split('`').skip(1).step_by(2).collect()
}
