//! The rules, one file each.

mod always_true;
mod any_server;
mod asks_nobody;
mod can_fail;
mod dead_policy;
mod impossible_value;
mod loose_pattern;
mod missing_severity;
mod monitor_only;
mod never_true;
mod over_broad;
mod parts;
mod phi_not_redacted;
mod redundant_entry;
mod shadowed;
mod suggests_denied;
mod unrecorded;
mod unused_label;
mod unused_roster;

use super::Rule;
pub(super) use phi_not_redacted::{off as phi_packs_off, redacts as redacts_phi};

/// Every rule.
pub(super) const ALL: &[Rule] = &[
    dead_policy::RULE,
    impossible_value::RULE,
    never_true::RULE,
    always_true::RULE,
    shadowed::RULE,
    shadowed::DUPLICATE,
    over_broad::RULE,
    loose_pattern::RULE,
    any_server::RULE,
    suggests_denied::RULE,
    can_fail::RULE,
    monitor_only::RULE,
    unrecorded::RULE,
    asks_nobody::RULE,
    missing_severity::RULE,
    unused_label::RULE,
    unused_roster::RULE,
    redundant_entry::RULE,
    phi_not_redacted::RULE,
];
