//! What to look for in texts: what `redact` and `scrub` have in common.

use std::io::Write;

use super::place::Place;
use super::policy;
use crate::exit::Exit;
use crate::scrub::{self, Rules};

/// What to look for.
#[derive(Debug, clap::Args)]
pub(super) struct Wanted {
    /// Look for health information too, whatever the policies say
    #[arg(long)]
    phi: bool,
    /// Look for health information if the policies say that this entity's texts hold some [default:
    /// what they say of an entity that nobody knows]
    #[arg(long, value_name = "NAME", conflicts_with = "phi")]
    entity: Option<String>,
    #[command(flatten)]
    place: Place,
}

/// The rules, and whether those for health information are among them.
pub(super) struct Opened {
    pub(super) rules: Rules,
    pub(super) phi: bool,
}

impl Wanted {
    /// Opens the rules that are in force here. What is wrong with the policies is shown.
    pub(super) fn open(
        &self,
        out: &mut dyn Write,
    ) -> Result<Result<Opened, Exit>, Box<dyn std::error::Error>> {
        let bundle = match self.place.policies(std::env::current_dir().ok().as_deref()) {
            Ok(bundle) => bundle,
            Err(problems) => {
                policy::show_problems(&problems, out)?;
                return Ok(Err(Exit::PolicyInvalid));
            }
        };
        let entities = &bundle.settings.entities;
        let entity = match &self.entity {
            Some(name) => Some(entities.named(name).ok_or_else(|| {
                format!("`entities.toml` has no entity `{name}`\nhelp: `--phi` looks for health information in any case")
            })?),
            None => None,
        };
        let phi = self.phi || entities.phi(entity);
        let key = scrub::key(&self.place.state())?;
        let rules = Rules::open(&bundle.settings.redaction, phi, key)?;
        if rules.is_empty() {
            return Err(
                "the policies have no rule for redaction\nhelp: they stand in `redaction/*.toml`"
                    .into(),
            );
        }
        Ok(Ok(Opened { rules, phi }))
    }
}
