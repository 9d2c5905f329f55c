//! `policy fmt`: Cedar files in one form, and nothing written that would mean something else.

use std::fs;
use std::path::Path;

use super::program::{Answer, Stage, run, send};

const ROUGH: &str = "// Mine.\n\n@id(\"a\") @reason(\"b\")\npermit(principal,action,resource);\n";
const NEAT: &str =
    "// Mine.\n\n@id(\"a\")\n@reason(\"b\")\npermit (principal, action, resource);\n";

fn fmt(stage: &Stage, words: &[&str], paths: &[&Path]) -> Answer {
    let mut command = stage.command(&["policy", "fmt"]);
    command.args(words).args(paths);
    run(command)
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

#[test]
fn files_are_brought_into_form_once() {
    let stage = Stage::new();
    stage.write("p/a.cedar", ROUGH);
    stage.write("p/b.cedar", NEAT);
    stage.write("p/notes.txt", ROUGH);
    stage.write("p/.hidden.cedar", ROUGH);
    let dir = stage.path("p");
    let check = fmt(&stage, &["--check"], &[&dir]);
    assert_eq!(check.code, 1, "{check:?}");
    for line in [
        "--- ",
        "+++ ",
        "-@id(\"a\") @reason(\"b\")",
        "+@id(\"a\")\n+@reason(\"b\")",
        "+permit (principal, action, resource);",
    ] {
        assert!(check.text.contains(line), "{}", check.text);
    }
    assert_eq!(
        read(&dir.join("a.cedar")),
        ROUGH,
        "`--check` writes nothing"
    );
    let answer = fmt(&stage, &[], &[&dir]);
    assert_eq!(answer.code, 0, "{answer:?}");
    assert_eq!(answer.text.lines().count(), 1, "{}", answer.text);
    assert_eq!(read(&dir.join("a.cedar")), NEAT);
    assert_eq!(read(&dir.join("notes.txt")), ROUGH);
    assert_eq!(read(&dir.join(".hidden.cedar")), ROUGH);
    for words in [&["--check"][..], &[]] {
        let again = fmt(&stage, words, &[&dir]);
        assert_eq!((again.code, again.text.as_str()), (0, ""), "{again:?}");
    }
}

#[test]
fn nothing_is_written_if_one_file_is_broken() {
    let stage = Stage::new();
    stage.write("p/a.cedar", ROUGH);
    stage.write(
        "p/b.cedar",
        "permit(principal, action, resource) whn { true };",
    );
    let dir = stage.path("p");
    let answer = fmt(&stage, &[], &[&dir]);
    assert_eq!(answer.code, 3, "{answer:?}");
    assert!(answer.text.contains("b.cedar:1:37"), "{}", answer.text);
    assert_eq!(read(&dir.join("a.cedar")), ROUGH);
}

#[test]
fn a_pipe_gets_the_text() {
    let stage = Stage::new();
    let pipe = |words: &[&str], text: &str| {
        send(
            stage.command(&[&["policy", "fmt", "-"], words].concat()),
            text.as_bytes(),
        )
    };
    assert_eq!(pipe(&[], ROUGH).text, NEAT);
    assert_eq!(pipe(&["--check"], NEAT).code, 0);
    assert_eq!(pipe(&["--check"], ROUGH).code, 1);
    let broken = pipe(&[], "permit(");
    assert_eq!((broken.code, broken.text.as_str()), (3, ""));
    assert!(broken.errors.contains("<stdin>"), "{broken:?}");
    assert_eq!(pipe(&["a.cedar"], ROUGH).code, 1);
}

#[cfg(unix)]
#[test]
fn modes_and_links_stay() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let stage = Stage::new();
    stage.write("real.cedar", ROUGH);
    let real = stage.path("real.cedar");
    fs::set_permissions(&real, fs::Permissions::from_mode(0o600)).unwrap();
    let link = stage.path("link.cedar");
    symlink(&real, &link).unwrap();
    assert_eq!(fmt(&stage, &[], &[&link]).code, 0);
    assert!(link.symlink_metadata().unwrap().is_symlink());
    assert_eq!(read(&real), NEAT);
    assert_eq!(real.metadata().unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn policies_in_force_are_compiled_again() {
    let stage = Stage::new();
    let dir = stage.policies();
    fs::write(
        dir.join("rough.cedar"),
        ROUGH.replace(
            "permit(principal,action,resource)",
            "forbid(principal,action,resource)when{context.depth>7}",
        ),
    )
    .unwrap();
    let at = |words: &[&str]| {
        let mut command = stage.command(words);
        command
            .arg("--policies")
            .arg(&dir)
            .arg("--state")
            .arg(stage.state());
        run(command)
    };
    let answer = at(&["policy", "fmt"]);
    assert_eq!(answer.code, 0, "{answer:?}");
    assert!(
        answer.text.contains("formatted ") && answer.text.contains("rough.cedar"),
        "{}",
        answer.text
    );
    let compiled = fs::read_dir(stage.state()).unwrap().count();
    assert!(compiled > 0, "nothing was compiled");
    assert!(
        fmt(&stage, &[], &[&stage.path("nowhere")])
            .errors
            .contains("cannot read")
    );
}

/// What this project carries is in form, as its own verb has it.
#[test]
fn the_default_policies_are_in_form() {
    let stage = Stage::new();
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("policies");
    let answer = fmt(&stage, &["--check"], &[&own]);
    assert_eq!(
        (answer.code, answer.text.as_str()),
        (0, ""),
        "`copilot-bridge policy fmt policies`"
    );
}
