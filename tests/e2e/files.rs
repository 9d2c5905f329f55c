//! The tools that work on files: `view`, `create`, `edit`, and `apply_patch` of the GPT tool set.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::json;

use crate::commands::DENIED;
use crate::mock_model::{MockModel, Turn};
use crate::stage::{Stage, TOOL_EVENTS};

#[test]
fn files_of_the_workspace_are_viewed_created_and_edited() {
    let Some(stage) = Stage::new("files_of_the_workspace_are_viewed_created_and_edited") else {
        return;
    };
    stage.install(TOOL_EVENTS);
    let old = stage.write("src/old.txt", "first line\n");
    let new = stage.workspace().join("new.txt");
    let model = MockModel::start([
        Turn::call("view", json!({"path": old})),
        Turn::call("create", json!({"path": new, "file_text": "made\n"})),
        Turn::call(
            "edit",
            json!({"path": old, "old_str": "first", "new_str": "changed"}),
        ),
    ]);
    stage.run(&model);
    let told = model.told(0);
    assert!(told.contains("first line"), "{told}");
    assert_eq!(fs::read_to_string(new).unwrap(), "made\n");
    assert_eq!(fs::read_to_string(old).unwrap(), "changed line\n");
    for tool in ["view", "create", "edit"] {
        assert_eq!(stage.decisions_about(tool), ["allow"], "{tool}");
    }
}

#[test]
fn files_elsewhere_are_neither_read_nor_written() {
    let Some(stage) = Stage::new("files_elsewhere_are_neither_read_nor_written") else {
        return;
    };
    stage.install(TOOL_EVENTS);
    let letter = stage.outside().join("letter.txt");
    fs::write(&letter, "dear diary\n").unwrap();
    let new = stage.outside().join("new.txt");
    let model = MockModel::start([
        Turn::call("view", json!({"path": letter})),
        Turn::call("create", json!({"path": new, "file_text": "made\n"})),
        Turn::call(
            "edit",
            json!({"path": letter, "old_str": "dear", "new_str": "changed"}),
        ),
    ]);
    stage.run(&model);
    for turn in 0..3 {
        let told = model.told(turn);
        assert!(told.starts_with(DENIED), "{told}");
        assert!(!told.contains("diary"), "{told}");
    }
    assert!(!new.exists(), "the file was created");
    assert_eq!(fs::read_to_string(letter).unwrap(), "dear diary\n");
    for tool in ["view", "create", "edit"] {
        assert_eq!(stage.decisions_about(tool), ["deny"], "{tool}");
    }
}

#[test]
fn a_link_does_not_lead_out_of_the_workspace() {
    let Some(stage) = Stage::new("a_link_does_not_lead_out_of_the_workspace") else {
        return;
    };
    stage.install(TOOL_EVENTS);
    fs::write(stage.outside().join("letter.txt"), "dear diary\n").unwrap();
    let link = stage.workspace().join("notes");
    symlink(stage.outside(), &link).unwrap();
    let new = link.join("new.txt");
    let model = MockModel::start([
        Turn::call("view", json!({"path": link.join("letter.txt")})),
        Turn::call("create", json!({"path": new, "file_text": "made\n"})),
    ]);
    stage.run(&model);
    for turn in 0..2 {
        let told = model.told(turn);
        assert!(told.starts_with(DENIED), "{told}");
        assert!(!told.contains("diary"), "{told}");
    }
    assert!(!new.exists(), "the file was created");
}

#[test]
fn a_patch_inside_the_workspace_is_applied() {
    let Some(stage) = Stage::new("a_patch_inside_the_workspace_is_applied") else {
        return;
    };
    stage.install(TOOL_EVENTS);
    let old = stage.write("old.txt", "first line\n");
    let new = stage.workspace().join("new.txt");
    let model = MockModel::start([Turn::patch(&format!(
        "*** Begin Patch\n*** Add File: {}\n+made\n*** Update File: old.txt\n@@\n-first line\n\
         +changed line\n*** End Patch\n",
        new.display()
    ))]);
    stage.run_gpt(&model);
    let told = model.told(0);
    assert!(!told.contains("Denied"), "{told}");
    assert_eq!(fs::read_to_string(new).unwrap(), "made\n");
    assert_eq!(fs::read_to_string(old).unwrap(), "changed line\n");
    assert_eq!(stage.decisions_about("apply_patch"), ["allow"]);
}

#[test]
fn a_patch_with_one_foot_outside_is_not_applied_at_all() {
    let Some(stage) = Stage::new("a_patch_with_one_foot_outside_is_not_applied_at_all") else {
        return;
    };
    stage.install(TOOL_EVENTS);
    let new = stage.workspace().join("new.txt");
    let elsewhere = stage.outside().join("planted.txt");
    let model = MockModel::start([Turn::patch(&format!(
        "*** Begin Patch\n*** Add File: {}\n+made\n*** Add File: {}\n+planted\n*** End Patch\n",
        new.display(),
        elsewhere.display()
    ))]);
    stage.run_gpt(&model);
    let told = model.told(0);
    assert!(told.starts_with(DENIED), "{told}");
    assert!(!new.exists(), "half of the patch was applied");
    assert!(!elsewhere.exists(), "the file outside was written");
    assert_eq!(stage.decisions_about("apply_patch"), ["deny"]);
}
