//! What goes wrong around the gate: each time the call is denied, with a reason that says what a
//! human does next, and nothing runs.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::commands::DENIED;
use crate::mock_model::{MockModel, Turn};
use crate::stage::{ALL_EVENTS, Stage, TOOL_EVENTS};

/// The gate answers after a second at the latest; the client adds its own time for starting the
/// hook and for the next request.
const LONGEST_PAUSE: Duration = Duration::from_millis(2_500);
/// A policy whose third line ends too early.
const BROKEN: &str = "// Somebody was interrupted while editing this.\n\
                      @id(\"half-a-policy\")\n\
                      permit (principal, action\n";

#[test]
fn a_broken_policy_denies_every_call() {
    let Some(stage) = Stage::new("a_broken_policy_denies_every_call") else {
        return;
    };
    stage.install(TOOL_EVENTS);
    stage.add_policy("broken.cedar", BROKEN);
    let new = stage.workspace().join("new.txt");
    let model = MockModel::start([
        Turn::bash("touch command.ran"),
        Turn::call(
            "create",
            serde_json::json!({"path": new, "file_text": "made\n"}),
        ),
    ]);
    stage.run(&model);
    for turn in 0..2 {
        let told = model.told(turn);
        assert!(told.starts_with(DENIED), "{told}");
        assert!(names_line_of(&told, "broken.cedar"), "where? {told}");
        let command = told.contains("copilot-bridge") && told.contains("check");
        assert!(command, "what now? {told}");
    }
    assert!(!stage.exists("command.ran"), "the command ran");
    assert!(!new.exists(), "the file was created");
}

#[test]
fn a_broken_policy_keeps_the_prompt_from_the_model() {
    let Some(stage) = Stage::new("a_broken_policy_keeps_the_prompt_from_the_model") else {
        return;
    };
    stage.install(ALL_EVENTS);
    stage.add_policy("broken.cedar", BROKEN);
    let model = MockModel::start([Turn::bash("touch command.ran")]);
    let run = stage.run(&model);
    assert!(!run.status.success(), "{}", run.output);
    assert!(model.requests().is_empty(), "the model was asked");
    assert!(names_line_of(&run.output, "broken.cedar"), "{}", run.output);
}

#[test]
fn a_policy_that_cannot_be_read_in_time_denies() {
    let Some(stage) = Stage::new("a_policy_that_cannot_be_read_in_time_denies") else {
        return;
    };
    stage.install(TOOL_EVENTS);
    // Whoever opens a pipe to read waits for its writer, and nobody ever writes to this one.
    let pipe = stage.policies().join("pipe.cedar");
    let mode = nix::sys::stat::Mode::S_IRUSR | nix::sys::stat::Mode::S_IWUSR;
    nix::unistd::mkfifo(&pipe, mode).expect("a pipe can be made");
    denies_in_time(&stage);
}

#[test]
fn a_record_that_is_locked_denies_in_time() {
    let Some(stage) = Stage::new("a_record_that_is_locked_denies_in_time") else {
        return;
    };
    stage.install(TOOL_EVENTS);
    let audit = stage.state().join("audit");
    fs::create_dir_all(&audit).expect("writable");
    let lock = File::create(audit.join("lock")).expect("writable");
    lock.lock().expect("nobody else has it");
    denies_in_time(&stage);
    assert!(stage.record().is_empty(), "somebody wrote past the lock");
}

#[test]
fn a_full_disk_denies() {
    let Some(stage) = Stage::alone_as_root("a_full_disk_denies") else {
        return;
    };
    stage.install(TOOL_EVENTS);
    let disk = SmallDisk::mount(stage.state());
    disk.fill();
    let model = MockModel::start([Turn::bash("touch command.ran")]);
    stage.run(&model);
    let told = model.told(0);
    assert!(told.starts_with(DENIED), "{told}");
    assert!(told.contains("audit_unavailable"), "{told}");
    assert!(!stage.exists("command.ran"), "the command ran unrecorded");
}

fn denies_in_time(stage: &Stage) {
    let model = MockModel::start([Turn::bash("touch command.ran")]);
    stage.run(&model);
    let told = model.told(0);
    assert!(told.starts_with(DENIED), "{told}");
    assert!(!stage.exists("command.ran"), "the command ran");
    let pause = model.pause_after(0);
    assert!(pause < LONGEST_PAUSE, "the answer took {pause:?}");
}

/// Whether the text has `<file>:<line>` in it.
fn names_line_of(text: &str, file: &str) -> bool {
    text.split(&format!("{file}:"))
        .skip(1)
        .any(|rest| rest.starts_with(|letter: char| letter.is_ascii_digit()))
}

/// A file system of its own, taken away again at the end.
struct SmallDisk {
    at: PathBuf,
}

impl SmallDisk {
    fn mount(at: PathBuf) -> Self {
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=64k,mode=0700", "none"])
            .arg(&at)
            .status();
        assert!(mounted.expect("mount starts").success(), "mount");
        Self { at }
    }

    fn fill(&self) {
        // The last bytes may fit where the many did not.
        for (name, size) in [("many", 4096), ("last", 1)] {
            let path = self.at.join(name);
            let mut text = Vec::new();
            while fs::write(&path, &text).is_ok() && text.len() < 1 << 20 {
                text.resize(text.len() + size, b'x');
            }
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.at).status();
    }
}
