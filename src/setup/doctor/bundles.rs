//! Which bundle of policies is in force, and whether it still is what was signed.

use std::path::Path;

use super::super::Scope;
use super::super::place::Places;
use super::installed::Installed;
use super::{Report, policy_folders};
use crate::distribution::pin;
use crate::distribution::status::{Status, status};
use crate::policy::Layer;
use crate::policy::published::{OnExpiry, Validity};

/// Looks at the policies that hooks name: where they came from as a bundle, or should have.
pub(super) fn look(places: &Places, installed: &[Installed], report: &mut Report) {
    for folder in policy_folders(places, installed) {
        let (layer, scope) = match folder == places.policies(Scope::Machine) {
            true => (Layer::Organisation, Scope::Machine),
            false => (Layer::User, Scope::User),
        };
        let pinned = match pin::read(layer, &folder) {
            Ok(pinned) => pinned.is_some(),
            Err(problems) => {
                for problem in problems {
                    let help = "until then no bundle is fetched";
                    report.error("bundle-pin", problem.one_line(), help);
                }
                true
            }
        };
        match status(layer, &folder, &places.state(scope)) {
            Ok(Some(found)) => in_force(&folder, &found, report),
            Ok(None) if pinned => report.warn(
                "no-bundle",
                format!("no bundle was ever fetched into `{}`", folder.display()),
                "`copilot-bridge policy bundle fetch` gets it",
            ),
            Ok(None) => {}
            Err(problem) => report.error(
                "bundle-unknown",
                problem.one_line(),
                "until then every call is denied; `copilot-bridge policy bundle fetch` gets it anew",
            ),
        }
    }
}

fn in_force(folder: &Path, found: &Status, report: &mut Report) {
    let said = &found.published;
    let named = format!("version {} of the bundle `{}`", said.version, said.name);
    report.ok(
        "bundle",
        format!("{named} is in force, signed by {}", said.signers.join(", ")),
    );
    let fetch = "`copilot-bridge policy bundle fetch` gets a newer one";
    let over = match found.validity {
        Validity::Valid => None,
        Validity::Expired => Some(format!("{named} has expired")),
        Validity::ClockBehind => Some(format!(
            "the clock is behind the time when {named} was published"
        )),
    };
    match (over, said.on_expiry) {
        (None, _) => {}
        (Some(over), OnExpiry::Warn) => report.warn("bundle-expired", over, fetch),
        (Some(over), OnExpiry::Deny) => {
            report.error(
                "bundle-expired",
                format!("{over}: every call is denied"),
                fetch,
            );
        }
    }
    if !found.untouched {
        report.error(
            "bundle-changed",
            format!("`{}` is not what {named} holds", folder.display()),
            "`copilot-bridge policy bundle fetch` puts it back, and keeps a copy of what is there",
        );
    }
    if let Some((_, why)) = &found.failed {
        report.warn(
            "bundle-fetch-failed",
            format!("the last look for a newer bundle failed: {why}"),
            "what is in force stays in force",
        );
    }
}
