use super::*;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// A home that holds what the recorded cases were run on.
struct Home(tempfile::TempDir);

impl Home {
    fn empty() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn recorded() -> Self {
        let home = Self::empty();
        copy(&fixtures().join("openclaw/state"), &home.path(".openclaw"));
        symlink("/etc/hostname", home.path(".openclaw/memory/evil.md")).unwrap();
        home
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(".openclaw").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn memory(&self) -> Memory {
        Memory::new(Places::usual(&self.path(""), |_| None).unwrap())
    }

    fn read(&self, file: &str) -> String {
        let read = self.memory().read(file);
        read.unwrap_or_else(|error| error.to_string())
    }
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/parity")
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

#[test]
fn the_tools_answer_as_they_did_elsewhere() {
    /// Depth is counted before a tool is called.
    const OF_THE_SERVER: [&str; 1] = ["MT-034"];
    let table = fs::read_to_string(fixtures().join("memory_tools.jsonl")).unwrap();
    let mut compared = 0;
    for row in table.lines() {
        let row: Value = serde_json::from_str(row).unwrap();
        let id = row["id"].as_str().unwrap();
        if OF_THE_SERVER.contains(&id) {
            continue;
        }
        let home = Home::recorded();
        if row["state"] == "USER.md absent" {
            fs::remove_file(home.path(".openclaw/USER.md")).unwrap();
        }
        let (memory, args) = (home.memory(), &row["args"]);
        let answer = match row["tool"].as_str().unwrap() {
            "openclaw_memory_search" => {
                let limit = usize::try_from(args["limit"].as_u64().unwrap()).unwrap();
                Ok(memory
                    .search(args["query"].as_str().unwrap(), limit)
                    .to_string())
            }
            "openclaw_memory_read" => memory.read(args["file"].as_str().unwrap_or(DEFAULT_FILE)),
            "openclaw_user_prefs" => memory.prefs(),
            other => panic!("{id}: {other}"),
        };
        let (text, is_error) = match answer {
            Ok(text) => (text, false),
            Err(error) => (error.to_string(), true),
        };
        let expected = row["expect"]["content"][0]["text"].as_str().unwrap();
        let expected = expected.replace(
            "$HOME",
            home.path("").to_str().unwrap().trim_end_matches('/'),
        );
        assert_eq!(text, expected, "{id}");
        assert_eq!(is_error, row["expect"]["isError"] == true, "{id}");
        compared += 1;
    }
    assert_eq!(compared, 14);
}

#[test]
fn nothing_outside_is_read() {
    let home = Home::recorded();
    home.write("openclaw.json", "{}");
    home.write("memory-of-others/x.md", "dark");
    let inside = home.path(".openclaw/memory/MEMORY.md");
    for (file, expected) in [
        (
            "../openclaw.json",
            "Access denied: Path traversal detected: \"../openclaw.json\" escapes memory directory",
        ),
        (
            "..",
            "Access denied: Path traversal detected: \"..\" escapes memory directory",
        ),
        (
            "/etc/passwd",
            "Access denied: Path traversal detected: \"/etc/passwd\" escapes memory directory",
        ),
        (
            "sub/../../USER.md",
            "Access denied: Path traversal detected: \"sub/../../USER.md\" escapes memory directory",
        ),
        (
            "../memory-of-others/x.md",
            "Access denied: Path traversal detected: \"../memory-of-others/x.md\" escapes memory directory",
        ),
        (
            "evil.md",
            "Access denied: Path traversal detected: \"evil.md\" escapes memory directory (via symlink)",
        ),
        (
            "\0",
            "Access denied: Invalid file path: null bytes not allowed",
        ),
    ] {
        assert_eq!(home.read(file), expected);
    }
    // What is inside is read by whatever name.
    for file in [
        "../memory/MEMORY.md",
        "./MEMORY.md",
        inside.to_str().unwrap(),
    ] {
        assert!(home.read(file).starts_with("# Memory\n"), "{file}");
    }
    let found = home.memory().search("a e i o u 0 1", 100);
    assert!(
        found.hits.iter().all(|hit| hit.file != "evil.md"),
        "{found}"
    );
}

#[test]
fn links_are_followed_inside_only() {
    let home = Home::recorded();
    let memory = home.path(".openclaw/memory");
    home.write("secrets/token.md", "dark secret");
    symlink("MEMORY.md", memory.join("here.md")).unwrap();
    symlink(memory.join("sub/x.md"), memory.join("deep.md")).unwrap();
    symlink("../secrets", memory.join("folder")).unwrap();
    symlink("circle.md", memory.join("circle.md")).unwrap();
    symlink("/nowhere/at/all", memory.join("dangling.md")).unwrap();
    assert!(home.read("here.md").starts_with("# Memory\n"));
    assert_eq!(home.read("deep.md"), "dark in sub\n");
    assert_eq!(
        home.read("folder/token.md"),
        "Access denied: Path traversal detected: \"folder/token.md\" escapes memory directory (via symlink)"
    );
    assert_eq!(
        home.read("circle.md"),
        format!(
            "Failed to read memory file \"circle.md\": ELOOP: too many symbolic links encountered, realpath '{}'",
            memory.join("circle.md").display()
        )
    );
    assert!(
        home.read("dangling.md")
            .contains("ENOENT: no such file or directory, open '")
    );
    assert!(
        home.read("MEMORY.md/x")
            .contains("ENOTDIR: not a directory, realpath '")
    );
    assert!(
        home.read(&"n".repeat(300))
            .contains("ENAMETOOLONG: name too long, realpath '")
    );
    assert_eq!(
        home.read("sub"),
        "Failed to read memory file \"sub\": EISDIR: illegal operation on a directory, read"
    );
}

#[test]
fn a_pipe_or_a_device_keeps_nobody_waiting() {
    let home = Home::recorded();
    let pipe = home.path(".openclaw/memory/pipe.md");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert_eq!(
        home.read("pipe.md"),
        "Failed to read memory file \"pipe.md\": it is no plain file"
    );
    assert_eq!(home.memory().search("mode", 5).hits.len(), 2);
}

#[test]
fn a_large_file_is_neither_read_nor_searched_and_the_answer_says_so() {
    let home = Home::recorded();
    let large = fs::File::create(home.path(".openclaw/memory/large.md")).unwrap();
    large.set_len(100 << 20).unwrap();
    assert_eq!(
        home.read("large.md"),
        "Failed to read memory file \"large.md\": it is larger than 4 MiB"
    );
    let found = home.memory().search("zzz", 5);
    assert_eq!(
        found.to_string(),
        "No memory entries found matching \"zzz\"\nNot searched: large.md (larger than 4 MiB)"
    );
}

#[test]
fn the_workspace_of_today_stands_before_the_older_folder() {
    let home = Home::recorded();
    home.write("workspace/MEMORY.md", "the zebra is striped\n");
    home.write("workspace/USER.md", "# Today\n");
    home.write("workspace/AGENTS.md", "a zebra of another kind\n");
    home.write("workspace/.env", "ZEBRA=1\n");
    home.write("workspace/memory/2026-11-20-zoo.md", "saw a zebra\r\n");
    home.write("workspace/memory/imports/old.md", "zebra, imported\n");
    home.write("memory/2025-01-01.md", "zebra of old\n");
    assert_eq!(
        home.memory().search("zebra", 5).to_string(),
        "[MEMORY.md] (score: 1.00) the zebra is striped\n\
         [memory/2026-11-20-zoo.md] (score: 1.00) saw a zebra\n\
         [2025-01-01.md] (score: 1.00) zebra of old"
    );
    // By that name the workspace's is read, so only that one is found.
    assert_eq!(
        home.memory().search("toggle prefers", 5).to_string(),
        "[2025-06-15.md] (score: 0.50) Fixed dark mode toggle"
    );
    for (file, text) in [
        ("MEMORY.md", "the zebra is striped\n"),
        ("USER.md", "# Today\n"),
        ("memory/2026-11-20-zoo.md", "saw a zebra\r\n"),
        ("memory/imports/old.md", "zebra, imported\n"),
        ("2025-01-01.md", "zebra of old\n"),
        ("note.txt", "dark txt\n"),
    ] {
        assert_eq!(home.read(file), text, "{file}");
    }
    assert_eq!(home.memory().prefs().unwrap(), "# Today\n");
    let absent = home.path(".openclaw/workspace/memory/nope.md");
    assert_eq!(
        home.read("memory/nope.md"),
        format!(
            "Failed to read memory file \"memory/nope.md\": ENOENT: no such file or directory, open '{}'",
            absent.display()
        )
    );
}

#[test]
fn of_a_workspace_only_the_memory_is_read() {
    let home = Home::empty();
    home.write("workspace/AGENTS.md", "be nice\n");
    home.write("workspace/src/key.md", "zebra\n");
    home.write("workspace/memory/ok.md", "zebra\n");
    let workspace = home.path(".openclaw/workspace");
    symlink("AGENTS.md", workspace.join("MEMORY.md")).unwrap();
    symlink("../src/key.md", workspace.join("memory/link.md")).unwrap();
    symlink("/etc/hostname", workspace.join("USER.md")).unwrap();
    assert_eq!(
        home.read("AGENTS.md"),
        "Access denied: \"AGENTS.md\" is no memory file"
    );
    assert_eq!(
        home.read("src/key.md"),
        "Access denied: \"src/key.md\" is no memory file"
    );
    for file in ["MEMORY.md", "memory/link.md", "USER.md"] {
        assert_eq!(
            home.read(file),
            format!(
                "Access denied: Path traversal detected: \"{file}\" escapes memory directory (via symlink)"
            )
        );
    }
    assert!(
        home.memory()
            .prefs()
            .unwrap_err()
            .to_string()
            .starts_with("Access denied: ")
    );
    assert_eq!(
        home.memory().search("zebra nice", 9).to_string(),
        "[memory/ok.md] (score: 0.50) zebra"
    );
}

#[test]
fn a_named_workspace_is_the_only_place() {
    let home = Home::recorded();
    home.write("elsewhere/MEMORY.md", "dark matter\n");
    let dir = home.path(".openclaw/elsewhere");
    let memory = Memory::new(Places::only(dir.clone()));
    assert_eq!(
        memory.search("dark", 5).to_string(),
        "[MEMORY.md] (score: 1.00) dark matter"
    );
    assert!(memory.read("note.txt").is_err());
    assert_eq!(
        memory.prefs().unwrap_err().to_string(),
        format!(
            "USER.md not found at {}/USER.md. Create this file to store user preferences that OpenClaw can reference.",
            dir.display()
        )
    );
}

#[test]
fn variables_of_openclaw_move_its_folders() {
    let home = Home::recorded();
    let state = home.path(".openclaw").to_str().unwrap().to_owned();
    home.write("w/MEMORY.md", "moved\n");
    let of = |pairs: &[(&str, String)]| {
        Places::usual(Path::new("/nobody"), |name| {
            let found = pairs.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| value.clone())
        })
    };
    let places = of(&[("OPENCLAW_STATE_DIR", state.clone())]).unwrap();
    assert!(Memory::new(places).read("note.txt").is_ok());
    let places = of(&[("OPENCLAW_WORKSPACE_DIR", format!("{state}/w"))]).unwrap();
    assert_eq!(Memory::new(places).read("MEMORY.md").unwrap(), "moved\n");
    let error = of(&[("OPENCLAW_WORKSPACE_DIR", "w".to_owned())]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "`OPENCLAW_WORKSPACE_DIR` is `w`, but has to be an absolute path"
    );
}

#[test]
fn where_there_is_no_memory_the_answer_says_where_it_would_be() {
    let home = Home::empty();
    let dir = home.path(".openclaw/memory");
    assert_eq!(
        home.memory().search("dark", 5).to_string(),
        format!("No memory directory found at {}", dir.display())
    );
    assert_eq!(
        home.read("MEMORY.md"),
        format!(
            "Failed to read memory file \"MEMORY.md\": ENOENT: no such file or directory, open '{}'",
            dir.join("MEMORY.md").display()
        )
    );
    home.write("workspace/notes.txt", "");
    assert_eq!(
        home.memory().search("dark", 5).to_string(),
        "No memory entries found matching \"dark\""
    );
}

#[test]
fn scores_and_blanks_are_as_in_javascript() {
    let home = Home::empty();
    home.write(
        "memory/a.md",
        "\u{feff}one\r\n   \u{85}two\nfive six seven eight nine\nTHREE four\nÄrger",
    );
    let search = |query: &str| home.memory().search(query, 100).to_string();
    assert_eq!(search("ONE"), "[a.md] (score: 1.00) one");
    assert_eq!(search("one 1 2 3 4 5 6 7"), "[a.md] (score: 0.13) one");
    assert_eq!(
        search("five six seven eight nine 1 2 3"),
        "[a.md] (score: 0.63) five six seven eight nine"
    );
    assert_eq!(search("one 1 2"), "[a.md] (score: 0.33) one");
    assert_eq!(search("two"), "[a.md] (score: 1.00) \u{85}two");
    assert_eq!(search("  three\tfour "), "[a.md] (score: 1.00) THREE four");
    assert_eq!(search("ärger"), "[a.md] (score: 1.00) Ärger");
    assert_eq!(home.memory().search("one", 0).hits, []);
}

#[test]
fn many_hits_are_cut_to_the_best_and_the_first_of_equals() {
    let home = Home::empty();
    let mut text: String = (0..5000).map(|n| format!("cat {n}\n")).collect();
    text.push_str("cat dog\n");
    home.write("memory/a.md", &text);
    let found = home.memory().search("cat dog", 1_000_000);
    assert_eq!(found.hits.len(), MOST_HITS);
    let texts: Vec<&str> = found
        .hits
        .iter()
        .map(|hit| hit.text.as_str())
        .take(3)
        .collect();
    assert_eq!(texts, ["cat dog", "cat 0", "cat 1"]);
    // Whole lines, or none of them: half a secret is not recognised any more.
    let line = format!("long {}\n", "x".repeat(700 << 10));
    home.write("memory/b.md", &line.repeat(2));
    let found = home.memory().search("long", 5);
    assert_eq!(found.hits.len(), 1);
    assert_eq!(found.hits[0].text, line.trim_end());
}

#[test]
fn no_line_of_a_private_key_is_a_hit() {
    let home = Home::empty();
    let body = ["q7ZebraXkT0", "9fZebraLm2p", "Vw3Zebra8Qa=="].map(|part| part.repeat(5));
    for quote in ["", "> ", "    "] {
        let [one, two, three] = &body;
        home.write(
            "memory/a.md",
            &format!(
                "zebra before\n{quote}-----BEGIN RSA {0}-----\n{quote}Proc-Type: 4,ENCRYPTED, zebra\n{quote}\n{quote}{one}\n\
                 {quote}{two}\r\n{quote}{three}\n{quote}-----END RSA {0}-----\nZebra\nthe zebra after\n",
                ["PRIVATE", "KEY"].join(" ")
            ),
        );
        assert_eq!(
            home.memory().search("zebra proc rsa", 100).to_string(),
            "[a.md] (score: 0.33) zebra before\n[a.md] (score: 0.33) Zebra\n[a.md] (score: 0.33) the zebra after"
        );
    }
    // Who only speaks of one hides nothing but bare words.
    let begin = ["-----BEGIN", "PRIVATE", "KEY-----"].join(" ");
    home.write(
        "memory/a.md",
        &format!("never paste {begin} here\nthe zebra\nzebra\n"),
    );
    assert_eq!(home.memory().search("zebra", 100).hits.len(), 2);
}
