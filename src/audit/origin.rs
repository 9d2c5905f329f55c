//! Where and when a line is written: the machine, the user, and clocks that do not jump.

use std::fs;
use std::sync::OnceLock;

/// Nanoseconds since the machine started, sleep included; 0 where there is no such clock.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn monotonic() -> u64 {
    nix::time::clock_gettime(nix::time::ClockId::CLOCK_BOOTTIME)
        .ok()
        .and_then(|time| {
            let seconds = u64::try_from(time.tv_sec()).ok()?;
            let nanoseconds = u64::try_from(time.tv_nsec()).ok()?;
            Some(seconds * 1_000_000_000 + nanoseconds)
        })
        .unwrap_or(0)
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) const fn monotonic() -> u64 {
    0
}

/// The id of the machine's start, or empty.
pub(super) fn boot() -> String {
    // No process lives longer than that.
    static BOOT: OnceLock<String> = OnceLock::new();
    let read = || {
        fs::read_to_string("/proc/sys/kernel/random/boot_id")
            .map(|id| id.trim().to_owned())
            .unwrap_or_default()
    };
    BOOT.get_or_init(read).clone()
}

/// The machine's name, or empty.
#[cfg(unix)]
pub(super) fn host() -> String {
    nix::unistd::gethostname()
        .ok()
        .and_then(|name| name.into_string().ok())
        .unwrap_or_default()
}

#[cfg(not(unix))]
pub(super) fn host() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_default()
}

/// The user's numeric id.
#[cfg(unix)]
pub(super) fn uid() -> u32 {
    nix::unistd::geteuid().as_raw()
}

#[cfg(not(unix))]
pub(super) const fn uid() -> u32 {
    0
}
