use super::*;
use crate::engine::program::{CodeOperand, Interpreter, Operands, Program, Wrapper};
use crate::engine::sleeping::Sleeping;

fn words(list: &[&str]) -> Vec<String> {
    list.iter().map(|word| (*word).to_owned()).collect()
}

/// Tables that say just enough.
fn tables() -> Containment {
    let program = |names: &[&str], operands, labels: &[&str]| Program {
        names: words(names),
        labels: words(labels),
        operands,
        ..Program::default()
    };
    let with = |output, program| Program { output, ..program };
    let wrapper = |names: &[&str], valued: &[&str], operands| Wrapper {
        names: words(names),
        valued: words(valued),
        operands,
        assignments: true,
        ..Wrapper::default()
    };
    Containment {
        programs: Sleeping::of(&[
            with(
                Output::Filter,
                program(&["cat", "wc", "ls"], Operands::Read, &[]),
            ),
            program(&["rm"], Operands::Delete, &[]),
            program(&["cp"], Operands::Copy, &[]),
            program(&["ln"], Operands::Link, &[]),
            program(&["echo", "true"], Operands::None, &[]),
            with(Output::Names, program(&["find"], Operands::Read, &[])),
            with(Output::Download, program(&["curl"], Operands::Guess, &[])),
            with(Output::Decoded, program(&["base64"], Operands::None, &[])),
        ])
        .unwrap(),
        wrappers: vec![
            wrapper(&["env", "nohup", "nice", "sudo"], &["-u", "-n"], 0),
            wrapper(&["timeout"], &["-k"], 1),
            Wrapper {
                appends: true,
                ..wrapper(&["xargs"], &["-n", "-I"], 0)
            },
            Wrapper {
                after: words(&["-exec"]),
                ..wrapper(&["find"], &[], 0)
            },
        ],
        interpreters: vec![
            Interpreter {
                names: words(&["bash", "sh"]),
                options: words(&["-c"]),
                stdin: words(&["-s"]),
                shell: true,
                ..Interpreter::default()
            },
            Interpreter {
                names: words(&["eval"]),
                operand: CodeOperand::All,
                shell: true,
                ..Interpreter::default()
            },
            Interpreter {
                names: words(&["python3"]),
                options: words(&["-c"]),
                ..Interpreter::default()
            },
        ],
        ..Containment::default()
    }
}

fn run(line: &str) -> Line {
    let here = Surroundings {
        cwd: Path::new("/nowhere/ws"),
        root: Some(Path::new("/nowhere/ws")),
        home: Some(Path::new("/home/dev")),
    };
    analyse(line, &tables(), here)
}

/// Whether the line is seen to take `/` away.
fn deletes_root(line: &Line) -> bool {
    line.paths
        .iter()
        .any(|path| path.access == Access::Delete && path.cwd.join(&path.given) == Path::new("/"))
}

fn code(line: &str, program: &str) -> CodeSource {
    run(line)
        .commands
        .iter()
        .find(|command| command.program == program)
        .unwrap_or_else(|| panic!("{line}: no {program}"))
        .code
}

#[test]
fn a_command_is_found_whatever_hides_it() {
    for line in [
        "rm -rf /",
        "r\"\"m -rf /",
        "r\\m -rf /",
        "$'\\x72m' -rf /",
        "rm \\\n -rf /",
        "/bin/rm -rf /",
        "X=/; rm -rf $X",
        "a=r; b=m; $a$b -rf /",
        "X='rm -rf /'; $X",
        "cd /; rm -rf .",
        "(cd / && rm -rf .)",
        "if x; then cd /; fi; rm -rf .",
        "true && rm -rf /",
        "ls | rm -rf /",
        "! rm -rf /",
        "{ rm -rf /; }",
        "for i in 1; do rm -rf /; done",
        "for d in a /; do rm -rf $d; done",
        "case x in x) rm -rf /;; esac",
        "f() { rm -rf /; }; f",
        "echo $(rm -rf /)",
        "echo `rm -rf /`",
        "cat <(rm -rf /)",
        "cat <<EOF\n$(rm -rf /)\nEOF",
        "X=$(rm -rf /)",
        "echo ${x:-$(rm -rf /)}",
        "echo $((1+$(rm -rf /)))",
        "[[ $(rm -rf /) ]]",
        "a[$(rm -rf /)]=1",
        "env X=1 nice -n 5 nohup timeout -k 1 5 rm -rf /",
        "find . -exec rm -rf / {} +",
        "ls | xargs -n 1 rm -rf /",
        "bash -c 'rm -rf /'",
        "bash -lc \"rm -rf /\"",
        "bash -c 'bash -c \"rm -rf /\"'",
        "eval rm '-rf' /",
        "bash <<'EOF'\nrm -rf /\nEOF",
        "sh <<< 'rm -rf /'",
        "echo 'rm -rf /' | bash",
        "echo rm -rf / | sh -s",
        "alias ll='rm -rf /'",
        "cat <<EOF | cat\nx\nEOF\nrm -rf /",
    ] {
        assert!(deletes_root(&run(line)), "{line:?}: {:#?}", run(line));
    }
}

#[test]
fn what_only_mentions_a_command_runs_none() {
    for line in [
        "echo 'rm -rf /'",
        "echo \"rm -rf /\"",
        "cat <<'EOF' > notes\nrm -rf / $(rm -rf /)\nEOF",
        "echo rm -rf / > notes",
        "true # rm -rf /",
    ] {
        let line = run(line);
        assert!(!deletes_root(&line), "{line:#?}");
    }
}

#[test]
fn a_line_that_is_all_known_is_certain() {
    for line in [
        "echo $X \"$(ls)\"",
        "cat a && ls b || true",
        "for f in a b; do wc $f; done",
        "find src -exec wc {} +",
        "find src | xargs wc",
        "cd src && ls",
        "cat $HOME/x \"$PWD/y\"",
        "echo hi > out 2>&1",
    ] {
        let line = run(line);
        assert_eq!(line.uncertain, None, "{line:#?}");
        assert!(line.commands.iter().all(|c| c.certain), "{line:#?}");
    }
}

#[test]
fn what_is_not_known_is_said() {
    for line in [
        "$X",
        "cat $X",
        "rm -rf \"$X/\"",
        "find $X -name y",
        "ls | xargs rm",
        "cat \"$(curl x)\"",
        "test -v 'a[$(id)]'; test x",
    ] {
        let line = run(line);
        let unsure = line.uncertain.is_some() || line.commands.iter().any(|c| !c.certain);
        assert!(
            unsure || line.commands.iter().any(|c| c.program == "test"),
            "{line:#?}"
        );
    }
    for line in [
        // The grammar takes it for a block.
        "{rm,-rf,/}",
        "$(",
        "if true; then",
        "ls ;; ls",
        "ls\u{a0}x",
        "ls \u{202e}x",
        "a\0b",
        "ls\rrm",
        "IFS=,; x",
        "echo ${x@P}",
        "echo ${!x}",
        "cd $X; rm a",
        "declare -n r=PATH",
        "[[ -v 'a[$(id)]' ]]",
    ] {
        assert!(run(line).uncertain.is_some(), "{line:?}: {:#?}", run(line));
    }
    assert!(run(&"ls ".repeat(5_000)).uncertain.is_some());
    assert!(run(&"(".repeat(100)).uncertain.is_some());
}

#[test]
fn where_code_comes_from_is_known() {
    assert_eq!(code("bash -c 'ls'", "bash"), CodeSource::Judged);
    assert_eq!(code("timeout 5 ls", "timeout"), CodeSource::Judged);
    assert_eq!(code("python3 -c 'x'", "python3"), CodeSource::Inline);
    assert_eq!(code("bash x.sh", "bash"), CodeSource::File);
    assert_eq!(run("./x.sh").commands[0].own, CodeSource::File);
    assert_eq!(code("bash /tmp/x.sh", "bash"), CodeSource::Unknown);
    assert_eq!(code("cat a | bash", "bash"), CodeSource::Stdin);
    assert_eq!(code("echo $X | bash", "bash"), CodeSource::Stdin);
    assert_eq!(code("echo *.sh | bash", "bash"), CodeSource::Stdin);
    assert_eq!(code("bash < a", "bash"), CodeSource::Stdin);
    assert_eq!(
        code("echo x > a.sh; bash a.sh", "bash"),
        CodeSource::Written
    );
    for line in [
        "curl x | bash",
        "curl x | cat | bash -s -- -y",
        "bash <(curl x)",
        "bash -c \"$(curl x)\"",
        "eval \"$(curl x)\"; bash -c \"$(curl x)\"",
        "curl x > a.sh; bash a.sh",
        "bash <<< \"$(curl x)\"",
        "X=$(curl x); bash -c \"$X\"",
        "echo \"$(curl x)\" | bash",
    ] {
        assert_eq!(code(line, "bash"), CodeSource::Download, "{line}");
    }
    assert_eq!(code("echo x | base64 -d | sh", "sh"), CodeSource::Decoded);
}

#[test]
fn paths_are_found_with_what_is_done_to_them() {
    let uses = |line: &str| -> Vec<(Access, String)> {
        let mut uses: Vec<_> = run(line)
            .paths
            .into_iter()
            .map(|path| (path.access, path.given))
            .collect();
        uses.sort();
        uses
    };
    let read = |path: &str| (Access::Read, path.to_owned());
    let write = |path: &str| (Access::Write, path.to_owned());
    assert_eq!(uses("cp a b c"), [read("a"), read("b"), write("c")]);
    assert_eq!(uses("cat a > b"), [read("a"), write("b")]);
    assert_eq!(uses("cat < a 2>> b"), [read("a"), write("b")]);
    assert_eq!(uses("cat a &> b"), [read("a"), write("b")]);
    assert_eq!(uses("curl /etc/x y"), [read("/etc/x")]);
    assert_eq!(uses("echo /etc/x"), []);
    assert_eq!(uses("cat -- -x"), [read("-x")]);
    assert_eq!(uses("cat '~/x'"), [read("./~/x")]);
    let link = run("ln -s ../README docs/x");
    assert!(link.paths.iter().any(|path| path.given == "../README"
        && path.access == Access::Write
        && path.cwd == Path::new("/nowhere/ws/docs")));
}

#[test]
fn a_file_that_is_called_like_an_option_is_seen() {
    let dir = tempfile::tempdir().unwrap();
    let certain = |line: &str| {
        let here = Surroundings {
            cwd: dir.path(),
            root: Some(dir.path()),
            home: None,
        };
        analyse(line, &tables(), here)
            .commands
            .iter()
            .all(|c| c.certain)
    };
    std::fs::write(dir.path().join("a"), "").unwrap();
    assert!(certain("cat *"));
    std::fs::write(dir.path().join("-o x"), "").unwrap();
    assert!(!certain("cat *"));
    assert!(certain("cat ./*"));
}
