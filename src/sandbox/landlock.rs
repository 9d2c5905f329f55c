//! Landlock: makes the kernel hold this process, and whatever it becomes, to a plan.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::thread;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, LandlockStatus,
    PathBeneath, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::{Access, Plan, SandboxError};

/// Without it, what is guarded could still be emptied.
const LEAST: ABI = ABI::V3;

/// Devices would reach around every path.
const DEVICES: BitFlags<AccessFs> = landlock::make_bitflags!(AccessFs::{MakeChar | MakeBlock});

/// Restricts this thread, and what it executes, to the plan. There is no way back.
///
/// # Errors
/// If the kernel cannot hold to it. Nothing may be run then.
pub fn restrict(plan: &Plan) -> Result<(), SandboxError> {
    enough(status()?)?;
    let status = enforce(plan)?;
    if status == RulesetStatus::NotEnforced {
        return Err(refused("the kernel does not enforce it"));
    }
    Ok(())
}

fn enforce(plan: &Plan) -> Result<RulesetStatus, SandboxError> {
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(LEAST))
        .map(|ruleset| ruleset.set_compatibility(CompatLevel::BestEffort))
        .and_then(|ruleset| ruleset.handle_access(AccessFs::IoctlDev))
        .and_then(|ruleset| ruleset.handle_access(AccessNet::BindTcp))
        .and_then(|ruleset| ruleset.scope(Scope::from_all(ABI::V6)))
        .and_then(Ruleset::create)
        .map_err(failed)?;
    for (path, access) in &plan.grants {
        let Some((file, folder)) = open(path)? else {
            continue;
        };
        let rights = rights(*access, folder);
        if !rights.is_empty() {
            rules = rules
                .add_rule(PathBeneath::new(file, rights))
                .map_err(failed)?;
        }
    }
    let status = rules.restrict_self().map_err(failed)?;
    if !status.no_new_privs {
        return Err(refused("privileges could still be gained"));
    }
    Ok(status.ruleset)
}

/// The file, and whether it is a folder. Nothing if it went away, or is out of reach anyway.
fn open(path: &Path) -> Result<Option<(OwnedFd, bool)>, SandboxError> {
    let cannot = |error: Errno| SandboxError {
        message: format!("`{}` cannot be granted: {error}", path.display()),
        help: "it may have changed just now: try again".into(),
    };
    // The plan follows links. One that appears since then would lead elsewhere.
    let opened = rustix::fs::openat2(
        CWD,
        path,
        OFlags::PATH | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::NO_SYMLINKS,
    );
    let file = match opened {
        Ok(file) => file,
        Err(Errno::NOENT | Errno::ACCESS) => return Ok(None),
        Err(error) => return Err(cannot(error)),
    };
    let found = rustix::fs::fstat(&file).map_err(cannot)?;
    let folder = FileType::from_raw_mode(found.st_mode) == FileType::Directory;
    Ok(Some((file, folder)))
}

fn rights(access: Access, folder: bool) -> BitFlags<AccessFs> {
    let rights = match access {
        Access::Nothing => BitFlags::EMPTY,
        Access::List => AccessFs::ReadDir.into(),
        Access::Read => AccessFs::from_read(ABI::V5),
        Access::Write => AccessFs::from_all(ABI::V5) & !DEVICES,
    };
    if folder {
        rights
    } else {
        rights & AccessFs::from_file(ABI::V5)
    }
}

/// What this kernel has. The library only tells who restricts itself: a thread does, and ends.
fn status() -> Result<LandlockStatus, SandboxError> {
    let asked = thread::spawn(|| -> Result<LandlockStatus, RulesetError> {
        let ruleset = Ruleset::default().handle_access(AccessFs::Execute)?;
        Ok(ruleset.create()?.restrict_self()?.landlock)
    });
    asked
        .join()
        .map_err(|_| refused("the kernel could not be asked"))?
        .map_err(failed)
}

fn enough(status: LandlockStatus) -> Result<(), SandboxError> {
    let has = match status {
        LandlockStatus::Available { effective_abi, .. } if effective_abi >= LEAST => return Ok(()),
        LandlockStatus::Available { effective_abi, .. } => {
            format!("this kernel has version {effective_abi} of Landlock")
        }
        LandlockStatus::NotEnabled => "this kernel has Landlock, but it is not enabled".into(),
        LandlockStatus::NotImplemented => "this kernel has no Landlock".into(),
    };
    let help = match status {
        LandlockStatus::NotEnabled => "add `landlock` to the boot parameter `lsm=`",
        _ => "use Linux 6.2 or newer, with Landlock built in and let through by the container",
    };
    Err(SandboxError {
        message: format!("{has}; version {LEAST} is needed, and nothing was run"),
        help: help.into(),
    })
}

fn failed(error: RulesetError) -> SandboxError {
    refused(&error.to_string())
}

fn refused(why: &str) -> SandboxError {
    SandboxError {
        message: format!("the command cannot be sandboxed, and was not run: {why}"),
        help: "`--dry-run` shows what would be granted".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn nobody_is_served_and_anybody_asked() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let LandlockStatus::Available { effective_abi, .. } = status().unwrap() else {
            return;
        };
        if effective_abi < ABI::V4 {
            return;
        }
        // Only the thread is held to it.
        let inside = thread::spawn(move || {
            restrict(&Plan::default()).unwrap();
            assert!(TcpStream::connect(address).is_ok());
            assert!(std::fs::read_dir("/").is_err());
            TcpListener::bind("127.0.0.1:0").map_err(|error| error.kind())
        });
        let bound = inside.join().unwrap();
        assert_eq!(bound.unwrap_err(), ErrorKind::PermissionDenied);
        assert!(TcpListener::bind("127.0.0.1:0").is_ok());
    }

    #[test]
    fn an_old_kernel_is_told_what_is_needed() {
        let has = |abi| LandlockStatus::Available {
            effective_abi: abi,
            kernel_abi: None,
        };
        assert_eq!(enough(has(ABI::V3)), Ok(()));
        assert_eq!(enough(has(ABI::V7)), Ok(()));
        for (status, said) in [
            (has(ABI::V2), "this kernel has version 2 of Landlock"),
            (LandlockStatus::NotEnabled, "not enabled"),
            (LandlockStatus::NotImplemented, "no Landlock"),
        ] {
            let error = enough(status).unwrap_err();
            assert!(error.message.contains(said), "{error}");
            assert!(error.message.contains("version 3 is needed"), "{error}");
        }
    }

    #[test]
    fn rights_fit_what_they_are_for() {
        let write = rights(Access::Write, true);
        assert!(write.contains(AccessFs::Refer | AccessFs::Truncate | AccessFs::MakeSym));
        assert!(!write.intersects(DEVICES));
        assert!(!rights(Access::Read, true).contains(AccessFs::WriteFile));
        assert!(!rights(Access::Write, false).contains(AccessFs::RemoveFile));
        assert!(rights(Access::List, false).is_empty());
        assert!(rights(Access::Nothing, true).is_empty());
    }
}
