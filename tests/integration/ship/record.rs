//! Records to be sent: from real hooks, and long ones made of their lines.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use data_encoding::HEXLOWER;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::program::Stage;

/// A record of a read, a denied command and a question.
pub(super) fn recorded() -> Stage {
    let stage = Stage::new();
    stage.judge("view", &json!({"path": "a.txt"}));
    stage.judge("bash", &json!({"command": "sudo ls"}));
    stage.judge("bash", &json!({"command": "git push"}));
    stage
}

/// The files of the record, the oldest first.
pub(super) fn days(stage: &Stage) -> Vec<PathBuf> {
    copilot_bridge::audit::read::days(&stage.state().join("audit")).unwrap()
}

/// All of the record.
pub(super) fn text(stage: &Stage) -> String {
    days(stage)
        .iter()
        .map(|day| fs::read_to_string(day).unwrap())
        .collect()
}

pub(super) fn id(line: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(line))
}

/// Goes on with a record in the form of its last line.
pub(super) struct Record {
    line: Value,
    prev: String,
    path: PathBuf,
}

impl Record {
    pub(super) fn of(stage: &Stage) -> Self {
        let path = days(stage).pop().unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let last = text.lines().last().unwrap();
        Self {
            line: serde_json::from_str(last).unwrap(),
            prev: id(last.as_bytes()),
            path,
        }
    }

    pub(super) fn day(&mut self, day: &str) {
        self.path.set_file_name(format!("audit-{day}.jsonl"));
    }

    pub(super) fn add(&mut self, lines: u64) {
        let mut options = fs::OpenOptions::new();
        let mut file = options.create(true).append(true).open(&self.path).unwrap();
        for _ in 0..lines {
            let seq = self.line["seq"].as_u64().unwrap() + 1;
            self.line["seq"] = seq.into();
            self.line["prev"] = self.prev.as_str().into();
            let line = self.line.to_string();
            self.prev = id(line.as_bytes());
            writeln!(file, "{line}").unwrap();
        }
    }
}
