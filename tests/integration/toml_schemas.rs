//! The JSON schemas of the TOML files, as people get them.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::bridge::workbench::schema::documents;
use super::program::{Stage, run};

/// What a TOML file says, for a schema to judge.
fn errors(schema: &Path, file: &Path) -> Vec<String> {
    let schema: Value = serde_json::from_str(&fs::read_to_string(schema).unwrap()).unwrap();
    let validator = jsonschema::draft7::new(&schema).unwrap();
    let table: toml::Table = fs::read_to_string(file).unwrap().parse().unwrap();
    let instance = as_editors_see(toml::Value::Table(table));
    validator
        .iter_errors(&instance)
        .map(|error| error.to_string())
        .collect()
}

/// TOML as taplo makes JSON of it: dates are texts.
fn as_editors_see(value: toml::Value) -> Value {
    match value {
        toml::Value::Datetime(time) => Value::String(time.to_string()),
        toml::Value::Array(all) => all.into_iter().map(as_editors_see).collect(),
        toml::Value::Table(all) => all
            .into_iter()
            .map(|(name, value)| (name, as_editors_see(value)))
            .collect(),
        plain => serde_json::to_value(plain).unwrap(),
    }
}

/// The schema that the first line of a file names, from where the file is.
fn named(file: &Path) -> std::path::PathBuf {
    let text = fs::read_to_string(file).unwrap();
    let line = text.lines().next().unwrap();
    let relative = line
        .strip_prefix("#:schema ")
        .unwrap_or_else(|| panic!("{}: {line}", file.display()));
    file.parent().unwrap().join(relative)
}

fn toml_files(dir: &Path) -> Vec<std::path::PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.file_name().unwrap().to_str().unwrap().starts_with('.') {
            all.extend(toml_files(&path));
        } else if path
            .extension()
            .is_some_and(|extension| extension == "toml")
        {
            all.push(path);
        }
    }
    all
}

#[test]
fn every_file_names_a_schema_that_is_there_and_fits() {
    let stage = Stage::new();
    let mut new = stage.command(&["policy", "new", "--template", "hipaa"]);
    new.arg(stage.path("new"));
    assert_eq!(run(new).code, 0);
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("policies");
    for dir in [repository, stage.path("new")] {
        let files = toml_files(&dir);
        assert!(files.len() >= 7, "{files:?}");
        for file in files {
            assert_eq!(errors(&named(&file), &file), [""; 0], "{}", file.display());
        }
    }
}

#[test]
fn a_mistake_is_one_for_the_schema_and_for_the_program() {
    let stage = Stage::new();
    for (file, from, to) in [
        ("bridge.toml", "mode = \"enforce\"", "mode = \"enfocre\""),
        ("bridge.toml", "depth = 3", "depth = \"3\""),
        ("bridge.toml", "depth = 3", "detph = 3"),
        ("bridge.toml", "deadline_ms = 1000", "deadline_ms = 60000"),
        ("containment.toml", "mounts = \"", "mounts = \"no"),
        (
            "permission.toml",
            "counterexamples = ",
            "counter_examples = ",
        ),
        ("entities.toml", "rosters = []", "rosters = \"all.txt\""),
        (
            "redaction/phi.toml",
            "purpose = \"phi\"",
            "purpose = \"pii\"",
        ),
        (
            "redaction/secrets.toml",
            "severity = \"high\"",
            "severity = \"hihg\"",
        ),
    ] {
        let dir = stage.policies();
        let path = dir.join(file);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{file}: {from}");
        fs::write(&path, text.replacen(from, to, 1)).unwrap();
        assert_ne!(errors(&named(&path), &path), [""; 0], "{file}: {to}");
        let mut check = stage.command(&["policy", "check"]);
        check.arg(&dir);
        assert_eq!(run(check).code, 3, "{file}: {to}");
        fs::remove_dir_all(&dir).unwrap();
    }
}

#[test]
fn the_verb_writes_what_is_committed() {
    let stage = Stage::new();
    let list = run(stage.command(&["schema", "policy"]));
    assert_eq!(list.code, 0);
    let mut all = stage.command(&["schema", "policy", "--into"]);
    all.arg(stage.path("schemas"));
    assert_eq!(run(all).code, 0);
    for document in documents() {
        assert!(list.text.contains(document.files));
        let committed = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join(format!("schemas/policy/{}.json", document.name));
        let committed = fs::read_to_string(committed).unwrap();
        let one = run(stage.command(&["schema", "policy", document.name]));
        assert_eq!((one.code, &one.text), (0, &committed));
        let written = stage
            .path("schemas")
            .join(format!("{}.json", document.name));
        assert_eq!(fs::read_to_string(written).unwrap(), committed);
    }
    assert_eq!(
        run(stage.command(&["schema", "policy", "nothing"])).code,
        64
    );
    let json: Value =
        serde_json::from_str(&run(stage.command(&["schema", "cedar", "--json"])).text).unwrap();
    assert!(json["Bridge"]["entityTypes"]["Path"].is_object(), "{json}");
}

#[test]
fn the_examples_of_the_documentation_fit() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let stage = Stage::new();
    for (page, name) in [
        ("rollout", "exceptions"),
        ("approvals", "approvers"),
        ("bundles", "bundle"),
    ] {
        let text = fs::read_to_string(root.join(format!("docs/{page}.md"))).unwrap();
        let (_, rest) = text.split_once("```toml\n").unwrap();
        let (example, _) = rest.split_once("```").unwrap();
        // Whose key it is, nobody should copy.
        let key = format!("ed25519:{}=", "A".repeat(43));
        let example = example.replace("ed25519:…", &key);
        stage.write("example.toml", &example);
        let path = stage.path("example.toml");
        let schema = root.join(format!("schemas/policy/{name}.json"));
        assert_eq!(errors(&schema, &path), [""; 0], "{page}");
        if let Some(line) = example.lines().next().filter(|line| line.starts_with('#')) {
            assert_eq!(line, format!("#:schema .schemas/{name}.json"), "{page}");
        }
        stage.write(
            "example.toml",
            &example.replace("format = 1", "format = \"1\""),
        );
        assert_ne!(errors(&schema, &path), [""; 0], "{page}");
    }
}

/// A person who ran `init` has them beside the policies, and `uninstall` takes them away again.
#[test]
fn an_installation_has_them() {
    let stage = Stage::new();
    let at = |verb: &str| {
        let mut command = stage.command(&[verb]);
        command.arg("--home").arg(stage.path("home"));
        run(command)
    };
    fs::create_dir_all(stage.path("home/.copilot")).unwrap();
    let answer = at("init");
    assert_eq!(answer.code, 0, "{answer:?}");
    let dir = stage.path("home/.config/copilot-bridge/policies");
    for file in toml_files(&dir) {
        assert_eq!(errors(&named(&file), &file), [""; 0], "{}", file.display());
    }
    assert_eq!(at("uninstall").code, 0);
}
