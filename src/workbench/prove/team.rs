//! Several solvers at work at once, one for each thread.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::Unprovable;
use super::solver::{Asker, Solver};

/// A worker's stack: terms are trees, and policies may be long.
const STACK: usize = 64 << 20;

/// The most workers. More solvers than this rarely find work.
const WORKERS: usize = 8;

/// Does each job, and gives what came of them in their order, whoever was first.
pub(in crate::workbench) fn work<J: Sync, T: Send>(
    jobs: &[J],
    solver: &Solver,
    job: impl Fn(&mut Asker, &J) -> T + Sync,
) -> Result<Vec<T>, Unprovable> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, T)>> = Mutex::new(Vec::new());
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let worker = || -> Result<(), String> {
        let mut asker = Asker::new(solver)?;
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(next) = jobs.get(number) else {
                return Ok(());
            };
            let found = job(&mut asker, next);
            let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
            done.push((number, found));
        }
    };
    let worker = &worker;
    thread::scope(|scope| {
        let started: Vec<_> = (0..cores.min(jobs.len()).clamp(1, WORKERS))
            .map(|_| {
                thread::Builder::new()
                    .stack_size(STACK)
                    .spawn_scoped(scope, worker)
                    .map_err(|error| format!("no thread can be started: {}", error.kind()))
            })
            .collect();
        started.into_iter().try_for_each(|started| {
            started?
                .join()
                .unwrap_or_else(|_| Err("a proof broke off".to_owned()))
        })
    })
    .map_err(Unprovable::Broken)?;
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(number, _)| *number);
    if done.len() != jobs.len() {
        return Err(Unprovable::Broken("a proof was left out".to_owned()));
    }
    Ok(done.into_iter().map(|(_, found)| found).collect())
}
