//! The gate of a program that stays: policies that change on disk are in force within a second.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use super::hook::refused;
use super::place::Place;
use crate::config;
use crate::gate::place::Installation;
use crate::gate::{Gate, Sink};
use crate::mcp::Gates;

/// Files are looked at this often at most.
const PAUSE: Duration = Duration::from_secs(1);

/// Directories of policies are no deeper.
const DEPTH: usize = 4;

/// The policies that are in force for callers that work in one folder.
#[derive(Debug)]
pub(crate) struct Standing {
    place: Place,
    cwd: PathBuf,
    here: Installation,
    current: Mutex<Current>,
}

#[derive(Debug)]
struct Current {
    gate: Arc<Gate>,
    files: Vec<Stamp>,
    looked: Instant,
}

/// A file, as far as a change of it shows.
#[derive(Debug, PartialEq, Eq)]
struct Stamp {
    path: PathBuf,
    inode: u64,
    bytes: u64,
    changed: Option<SystemTime>,
}

impl Standing {
    /// The gate for callers that work in that folder. `by_agents`: whether the agents above this
    /// process are the ones that call.
    pub(crate) fn new(place: &Place, cwd: &Path, by_agents: bool) -> Self {
        let mut here = place.installation();
        here.count_ancestors = by_agents;
        here.depth = config::depth(|name| std::env::var(name).ok());
        let files = stamps(place, cwd, &here);
        let gate = open(place, cwd, &here);
        Self {
            place: place.clone(),
            cwd: cwd.to_path_buf(),
            here,
            current: Mutex::new(Current {
                gate,
                files,
                looked: Instant::now(),
            }),
        }
    }
}

impl Gates for Standing {
    fn current(&self) -> Arc<Gate> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.looked.elapsed() >= PAUSE {
            // Before the files are read: a change in between is then seen the next time.
            let files = stamps(&self.place, &self.cwd, &self.here);
            current.looked = Instant::now();
            if files != current.files {
                current.gate = open(&self.place, &self.cwd, &self.here);
                current.files = files;
            }
        }
        Arc::clone(&current.gate)
    }
}

fn open(place: &Place, cwd: &Path, here: &Installation) -> Arc<Gate> {
    let bundle = place
        .judging_policies(Some(cwd))
        .map_err(|problems| refused(place, &problems));
    Arc::new(
        Gate::new(bundle, here.clone(), Sink::State)
            .logging()
            .standing(),
    )
}

fn stamps(place: &Place, cwd: &Path, here: &Installation) -> Vec<Stamp> {
    let mut stamps = Vec::new();
    let workspace = place.locations(Some(cwd)).workspace;
    for path in here.policies.iter().chain(&workspace) {
        walk(path, DEPTH, &mut stamps);
    }
    stamps
}

fn walk(path: &Path, deeper: usize, stamps: &mut Vec<Stamp>) {
    let Ok(found) = path.metadata() else {
        return;
    };
    stamps.push(Stamp {
        path: path.to_path_buf(),
        inode: found.ino(),
        bytes: found.len(),
        changed: found.modified().ok(),
    });
    if !found.is_dir() || deeper == 0 {
        return;
    }
    let Ok(entries) = fs::read_dir(path) else {
        return;
    };
    let mut entries: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    entries.sort_unstable();
    for entry in entries {
        walk(&entry, deeper - 1, stamps);
    }
}
