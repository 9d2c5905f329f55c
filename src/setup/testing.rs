//! A home, a machine and a repository in a folder that goes away, and rooms that agree to all.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};

use super::place::{Overrides, Places};
use super::{Coverage, Inspection, KeyState, Rooms};

pub(super) struct Stage {
    pub(super) folder: tempfile::TempDir,
    pub(super) places: Places,
}

impl Stage {
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| Some(folder.path().join(name));
        for name in ["home", "machine", "bin", "work/.git"] {
            fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        let binary = folder.path().join("bin/copilot-bridge");
        fs::write(&binary, "").unwrap();
        let mut places = Places::find(&Overrides {
            home: at("home"),
            etc: at("machine"),
            copilot_home: at("home/.copilot"),
            binary: Some(binary),
            ..Overrides::default()
        })
        .unwrap();
        places.workspace = folder.path().join("work");
        places.repo = Some(places.workspace.clone());
        Self { folder, places }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(super) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    pub(super) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// All files with their text, and all folders.
    pub(super) fn all(&self) -> Vec<(PathBuf, Option<String>)> {
        let mut found = Vec::new();
        let mut folders = vec![self.folder.path().to_path_buf()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path.clone());
                    found.push((path, None));
                } else {
                    let text = fs::read_to_string(&path).unwrap();
                    found.push((path, Some(text)));
                }
            }
        }
        found.sort();
        found
    }
}

/// Rooms whose answers a test can set.
pub(super) struct FakeRooms {
    pub(super) defaults: Vec<(&'static str, &'static str)>,
    pub(super) problems: Vec<String>,
    pub(super) passes_unrecorded: bool,
    pub(super) approves_unverified: bool,
    pub(super) compiled: RefCell<Vec<PathBuf>>,
}

impl FakeRooms {
    pub(super) fn new() -> Self {
        Self {
            defaults: vec![
                ("bridge.toml", "mode = \"enforce\"\n"),
                (
                    "permission.cedar",
                    "permit (principal, action, resource);\n",
                ),
                ("redaction/secrets.toml", "# none\n"),
            ],
            problems: Vec::new(),
            passes_unrecorded: false,
            approves_unverified: false,
            compiled: RefCell::default(),
        }
    }
}

impl Rooms for FakeRooms {
    fn defaults(&self) -> &[(&str, &str)] {
        &self.defaults
    }

    fn create_key(&self, state: &Path) -> Result<KeyState, String> {
        let path = state.join("key");
        if path.exists() {
            return Ok(KeyState::Kept);
        }
        super::files::write(&path, "secret", None, 0o600).map_err(|error| error.message)?;
        Ok(KeyState::Created)
    }

    fn compile(&self, policies: &Path, _: &Path) -> Result<String, Vec<String>> {
        self.compiled.borrow_mut().push(policies.to_path_buf());
        if self.problems.is_empty() {
            Ok("0123456789abcdef".to_owned())
        } else {
            Err(self.problems.clone())
        }
    }

    fn inspect(&self, _: &Path) -> Inspection {
        Inspection {
            problems: self.problems.clone(),
            deadline_ms: 1_000,
            passes_unrecorded: self.passes_unrecorded,
            approves_unverified: self.approves_unverified,
            coverage: Coverage {
                secret_rules: 1,
                secret_kinds: 1,
                ..Coverage::default()
            },
        }
    }

    fn honours_audit_dir(&self, _: &Path) -> Result<(), String> {
        Err("it is not owned by root".to_owned())
    }

    fn probe(&self, dialect: &str, target: &Path, _: &Path) -> String {
        format!("{dialect} {}", target.display())
    }

    fn is_denial(&self, _: &str, exit: Option<i32>, stdout: &[u8]) -> bool {
        exit == Some(2) && stdout.starts_with(b"{\"deny\"")
    }
}
