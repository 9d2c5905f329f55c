//! `audit ship`: the record, sent on to real servers that are kind, slow, rude or gone.

mod faults;
mod otlp;
mod record;
mod server;
mod tls;

use std::fs;
use std::process::Child;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::program::{Answer, Stage, run};
use record::{Record, recorded};
use server::{Reply, Server};

/// `audit ship` with these words, for the record of this stage.
fn ship(stage: &Stage, words: &[&str]) -> std::process::Command {
    let mut command = stage.command(&["audit", "ship"]);
    command.args(words).arg("--state").arg(stage.state());
    command
}

fn shipped(stage: &Stage, server: &Server, words: &[&str]) -> Answer {
    let mut command = ship(stage, &["--http", &server.url()]);
    command.args(words).args(["--format", "json"]);
    run(command)
}

/// A shipper that does not outlive its test.
struct Running(Option<Child>);

impl Running {
    fn new(mut command: std::process::Command) -> Self {
        Self(Some(command.spawn().unwrap()))
    }

    fn signal(&self, signal: nix::sys::signal::Signal) {
        let id = self.0.as_ref().unwrap().id();
        let pid = nix::unistd::Pid::from_raw(i32::try_from(id).unwrap());
        nix::sys::signal::kill(pid, signal).unwrap();
    }

    fn answer(mut self) -> Answer {
        Answer::of(&self.0.take().unwrap().wait_with_output().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn follow(stage: &Stage, server: &Server) -> Running {
    Running::new(ship(stage, &["--http", &server.url(), "--follow"]))
}

/// Waits until it holds, but not forever.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The files below `<state>/ship`.
fn positions(stage: &Stage) -> Vec<std::path::PathBuf> {
    let Ok(entries) = fs::read_dir(stage.state().join("ship")) else {
        return Vec::new();
    };
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn everything_arrives_once_in_order_and_can_be_verified_there() {
    let stage = recorded();
    let server = Server::kind();
    let answer = shipped(&stage, &server, &[]);
    assert_eq!(answer.code, 0, "{answer:?}");
    let report = answer.json();
    assert_eq!(report["lines"], 3);
    assert_eq!(report["requests"], 1);
    assert_eq!(report["last"]["seq"], 3);
    assert_eq!(report["error"], Value::Null);
    // Byte for byte what stands in the record, under its own hash.
    assert_eq!(server.text(), record::text(&stage));
    let copy = stage.path("copy.jsonl");
    fs::write(&copy, server.text()).unwrap();
    let mut verify = stage.command(&["audit", "verify", "--format", "json"]);
    verify.arg(&copy);
    assert_eq!(run(verify).json()["whole"], true);
    let seen = server.requests();
    assert_eq!(seen[0].header("content-type"), "application/x-ndjson");
    assert_eq!(seen[0].header("idempotency-key").len(), 66);
    // Only what is new is sent.
    let answer = shipped(&stage, &server, &[]);
    assert_eq!((answer.code, &answer.json()["lines"]), (0, &json!(0)));
    assert_eq!(server.requests().len(), 1);
    stage.judge("view", &json!({"path": "a.txt"}));
    assert_eq!(shipped(&stage, &server, &[]).json()["lines"], 1);
    assert_eq!(server.text(), record::text(&stage));
    // Another sink has a position of its own.
    let other = Server::kind();
    assert_eq!(shipped(&stage, &other, &["--gzip"]).json()["lines"], 4);
    assert_eq!(other.text(), server.text());
    assert_eq!(other.requests()[0].header("content-encoding"), "gzip");
}

#[test]
fn what_it_did_is_said_in_a_line() {
    let stage = recorded();
    let server = Server::kind();
    let answer = run(ship(&stage, &["--http", &server.url()]));
    assert_eq!((answer.code, answer.text.as_str()), (0, ""), "{answer:?}");
    let expected = format!(
        "3 lines sent to `{}` in 1 request, up to number 3\n",
        server.url()
    );
    assert_eq!(answer.errors, expected);
}

#[test]
fn only_their_owner_can_use_the_positions() {
    use std::os::unix::fs::PermissionsExt;
    let stage = recorded();
    let server = Server::kind();
    assert_eq!(shipped(&stage, &server, &[]).code, 0);
    let files = positions(&stage);
    assert_eq!(files.len(), 2, "{files:?}");
    for path in &files {
        let mode = fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", path.display());
    }
    let mode = fs::metadata(stage.state().join("ship"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o700);
    // What is no position is not taken for the beginning.
    let position = files
        .iter()
        .find(|path| path.extension().is_some_and(|ending| ending == "json"))
        .unwrap();
    let whole = fs::read_to_string(position).unwrap();
    for garbage in [
        String::new(),
        "{}".to_owned(),
        whole.replace("\"version\":1", "\"version\":2"),
        whole.replace("\"audit-", "\"../audit-"),
        whole.replace("\"version\":1", "\"version\":1,\"more\":1"),
    ] {
        fs::write(position, garbage).unwrap();
        let answer = run(ship(&stage, &["--http", &server.url()]));
        assert_eq!(answer.code, 1, "{answer:?}");
        assert!(answer.errors.contains("is no position"), "{answer:?}");
        assert!(answer.errors.contains("help: "), "{answer:?}");
    }
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn a_long_record_goes_in_bounded_requests() {
    let stage = recorded();
    let mut record = Record::of(&stage);
    record.add(1_200);
    let server = Server::kind();
    let report = shipped(&stage, &server, &["--batch-lines", "100"]).json();
    assert_eq!(report["lines"], 1_203);
    assert_eq!(report["requests"], 13);
    assert_eq!(server.text(), record::text(&stage));
    let other = Server::kind();
    let report = shipped(&stage, &other, &["--batch-bytes", "20000"]).json();
    assert_eq!(report["lines"], 1_203);
    for request in other.requests() {
        let bytes: usize = request.lines().iter().map(String::len).sum();
        assert!(bytes < 20_000 + (16 << 10), "{bytes}");
    }
    assert_eq!(other.text(), record::text(&stage));
}

#[test]
fn a_shipper_that_is_killed_again_and_again_loses_nothing() {
    let stage = recorded();
    let mut record = Record::of(&stage);
    record.add(400);
    let server = Server::new(|_| {
        std::thread::sleep(Duration::from_millis(3));
        Reply::status(200)
    });
    let words = ["--http", &server.url(), "--batch-lines", "7"];
    let mut delay: u64 = 1;
    let mut killed = 0;
    loop {
        let mut child = ship(&stage, &words).spawn().unwrap();
        // Fixed, but all over the way of a run.
        delay = (delay * 1_103_515_245 + 12_345) % 2_147_483_648;
        let until = Instant::now() + Duration::from_millis(20 + delay % 90);
        let mut ended = None;
        while ended.is_none() && Instant::now() < until {
            ended = child.try_wait().unwrap();
            std::thread::sleep(Duration::from_millis(1));
        }
        if let Some(status) = ended {
            assert!(status.success());
            break;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        killed += 1;
        assert!(killed < 300, "it never comes to its end");
    }
    assert!(killed > 0, "it was never killed");
    // All is there in order; what is there twice has the same id and text.
    let mut seen = std::collections::HashMap::new();
    let mut text = String::new();
    for envelope in server.envelopes() {
        let id = envelope["id"].as_str().unwrap().to_owned();
        let line = envelope["line"].as_str().unwrap().to_owned();
        match seen.get(&id) {
            Some(before) => assert_eq!(*before, line),
            None => {
                text.push_str(&line);
                text.push('\n');
                seen.insert(id, line);
            }
        }
    }
    assert_eq!(text, record::text(&stage));
}

#[test]
fn two_shippers_of_one_sink_do_not_run_at_once() {
    let stage = recorded();
    let server = Server::kind();
    let first = follow(&stage, &server);
    until("the first has shipped", || positions(&stage).len() == 2);
    let answer = shipped(&stage, &server, &[]);
    assert_eq!(answer.code, 1, "{answer:?}");
    assert!(
        answer.errors.contains("another process ships to"),
        "{answer:?}"
    );
    let other = Server::kind();
    assert_eq!(shipped(&stage, &other, &[]).code, 0);
    // The lock goes with the process, however it ends.
    drop(first);
    assert_eq!(shipped(&stage, &server, &[]).code, 0);
    assert_eq!(server.envelopes().len(), 3);
}

#[test]
fn what_comes_is_followed_over_days_until_it_is_told_to_end() {
    use nix::sys::signal::Signal;
    for end in [Signal::SIGTERM, Signal::SIGINT] {
        let stage = Stage::new();
        let server = Server::kind();
        // Who waits may wait for the first line.
        let child = follow(&stage, &server);
        stage.judge("view", &json!({"path": "a.txt"}));
        until("the first line", || server.envelopes().len() == 1);
        for day in ["2998-01-01", "2999-01-01"] {
            stage.begin_day(day);
            stage.judge("bash", &json!({"command": "ls"}));
            stage.judge("bash", &json!({"command": "sudo id"}));
        }
        until("all lines", || server.envelopes().len() == 5);
        // What was sent may be removed meanwhile.
        for day in record::days(&stage).iter().take(2) {
            fs::remove_file(day).unwrap();
        }
        stage.judge("view", &json!({"path": "a.txt"}));
        until("the last line", || server.envelopes().len() == 6);
        child.signal(end);
        let answer = child.answer();
        assert_eq!(answer.code, 0, "{answer:?}");
        assert!(answer.errors.starts_with("6 lines sent to"), "{answer:?}");
        let numbers: Vec<u64> = server.numbers();
        assert_eq!(numbers, [1, 2, 3, 4, 5, 6]);
    }
}

#[test]
fn what_retention_took_before_it_was_sent_is_an_error_once() {
    let stage = recorded();
    let mut record = Record::of(&stage);
    record.add(10);
    let server = Server::kind();
    let answer = shipped(&stage, &server, &[]);
    assert_eq!(answer.code, 0, "{answer:?}");
    record.day("2998-01-01");
    record.add(20);
    record.day("2998-01-02");
    record.add(5);
    for day in record::days(&stage).iter().take(2) {
        fs::remove_file(day).unwrap();
    }
    let answer = shipped(&stage, &server, &[]);
    assert_eq!(answer.code, 1, "{answer:?}");
    assert_eq!(answer.json()["missing"], 20);
    assert_eq!(answer.json()["lines"], 5);
    assert!(
        answer
            .errors
            .contains("20 lines before number 34 were gone before being sent"),
        "{answer:?}"
    );
    let answer = shipped(&stage, &server, &[]);
    assert_eq!((answer.code, &answer.json()["missing"]), (0, &json!(0)));
    // A sink that begins now never saw what is gone.
    let answer = shipped(&stage, &Server::kind(), &[]);
    assert_eq!((answer.code, &answer.json()["missing"]), (1, &json!(33)));
}

#[test]
fn a_record_that_was_changed_is_sent_anew_and_an_error() {
    let stage = recorded();
    let server = Server::kind();
    assert_eq!(shipped(&stage, &server, &[]).code, 0);
    let day = &record::days(&stage)[0];
    let text = fs::read_to_string(day).unwrap();
    let last = text.lines().last().unwrap();
    fs::write(
        day,
        text.replace(last, &last.replace("git push", "git pull")),
    )
    .unwrap();
    let answer = shipped(&stage, &server, &[]);
    assert_eq!(answer.code, 1, "{answer:?}");
    assert_eq!(answer.json()["changed"], true);
    assert!(
        answer.errors.contains("stands nowhere in the record"),
        "{answer:?}"
    );
    // The other side has both.
    assert_eq!(server.text(), text + &fs::read_to_string(day).unwrap());
    assert_eq!(shipped(&stage, &server, &[]).code, 0);
}

#[test]
fn a_torn_line_is_sent_when_it_was_ended() {
    use std::io::Write;
    let stage = recorded();
    let server = Server::kind();
    let day = record::days(&stage)[0].clone();
    let mut file = fs::OpenOptions::new().append(true).open(&day).unwrap();
    file.write_all(b"{\"v\":1,\"seq\":4,\"ts\":\"20").unwrap();
    assert_eq!(shipped(&stage, &server, &[]).json()["lines"], 3);
    assert_eq!(shipped(&stage, &server, &[]).json()["lines"], 0);
    stage.judge("view", &json!({"path": "a.txt"}));
    let answer = shipped(&stage, &server, &[]);
    assert_eq!((answer.code, &answer.json()["lines"]), (0, &json!(3)));
    assert_eq!(server.text(), fs::read_to_string(&day).unwrap());
    assert_eq!(
        server.envelopes()[3]["line"],
        "{\"v\":1,\"seq\":4,\"ts\":\"20"
    );
}

#[test]
fn what_is_no_text_arrives_all_the_same() {
    use std::io::Write;
    let stage = recorded();
    let server = Server::kind();
    let day = record::days(&stage)[0].clone();
    let mut file = fs::OpenOptions::new().append(true).open(&day).unwrap();
    let long = "x".repeat(40_000);
    file.write_all(b"\xff\xfe\n").unwrap();
    file.write_all(format!("{long}\n").as_bytes()).unwrap();
    assert_eq!(shipped(&stage, &server, &[]).json()["lines"], 5);
    let envelopes = server.envelopes();
    assert_eq!(envelopes[3]["base64"], "//4=");
    assert_eq!(envelopes[3]["id"], record::id(b"\xff\xfe"));
    let expected = json!({"id": record::id(long.as_bytes()), "length": 40_000});
    assert_eq!(envelopes[4], expected);
}

#[test]
fn positions_can_be_where_the_owner_of_the_record_cannot_reach_them() {
    let stage = recorded();
    let server = Server::kind();
    let place = stage.path("elsewhere/positions");
    let words = ["--positions", place.to_str().unwrap()];
    for lines in [3, 0] {
        assert_eq!(shipped(&stage, &server, &words).json()["lines"], lines);
    }
    assert!(positions(&stage).is_empty());
    assert_eq!(fs::read_dir(&place).unwrap().count(), 2);
    // And its owner cannot lead elsewhere who ships it.
    let day = record::days(&stage)[0].clone();
    fs::write(stage.path("other"), "not of the record\n").unwrap();
    let made: [&dyn Fn(&std::path::Path); 2] = [
        &|path| std::os::unix::fs::symlink(stage.path("other"), path).unwrap(),
        &|path| nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).unwrap(),
    ];
    for (make, why) in made
        .into_iter()
        .zip(["it is a link", "it is no plain file"])
    {
        let trap = day.with_file_name("audit-2999-01-01.jsonl");
        make(&trap);
        let answer = shipped(&stage, &server, &words);
        assert_eq!(answer.code, 1, "{answer:?}");
        assert!(answer.errors.contains(why), "{answer:?}");
        fs::remove_file(trap).unwrap();
    }
    assert_eq!(server.envelopes().len(), 3);
}

#[test]
fn there_has_to_be_a_record_and_a_sink() {
    let stage = Stage::new();
    let server = Server::kind();
    let answer = run(ship(&stage, &["--http", &server.url()]));
    assert_eq!(answer.code, 1, "{answer:?}");
    assert!(
        answer.errors.contains("there is no record in `"),
        "{answer:?}"
    );
    assert!(!stage.state().exists(), "who looks makes no state");
    for words in [&[][..], &["--http", "http://127.0.0.1:1", "--otlp", "x"]] {
        assert_eq!(run(ship(&stage, words)).code, 64, "{words:?}");
    }
    let stage = recorded();
    let with_password = format!("https://me:{}@192.0.2.1/", "word");
    for (url, why) in [
        ("http://192.0.2.1/", "not on this machine"),
        (&with_password, "a user or a password"),
        ("gopher://192.0.2.1/", "neither `https` nor `http`"),
    ] {
        let answer = run(ship(&stage, &["--http", url]));
        assert_eq!(answer.code, 1, "{answer:?}");
        assert!(answer.errors.contains(why), "{answer:?}");
        assert!(!answer.errors.contains("word@"), "{answer:?}");
    }
}
