//! What a lower layer's value does to the value above it: it tightens, or it is a problem.

use std::collections::BTreeSet;

use toml::Spanned;

use super::table::Reader;
use crate::policy::diagnostic::{Code, Problem, quote};

/// The smaller value. A larger one of a lower layer is a problem.
pub(super) fn lower(value: &mut u32, new: &Spanned<u32>, name: &str, reader: &mut Reader<'_>) {
    if reader.base || new.get_ref() <= value {
        *value = *new.get_ref();
        return;
    }
    let problem = Problem::error(
        Code::Loosens,
        format!("the layer above limits `{name}` to {value}"),
    )
    .help("a lower layer may only set a smaller value");
    reader.push(new.span(), problem);
}

/// The entries that both layers have. The base starts the list.
pub(super) fn intersect(
    list: &mut Vec<String>,
    new: Vec<Spanned<String>>,
    name: &str,
    reader: &mut Reader<'_>,
) {
    if reader.base {
        for entry in new {
            add(list, entry.into_inner());
        }
        return;
    }
    for entry in &new {
        if !list.contains(entry.get_ref()) {
            let problem = Problem::warning(
                Code::NoEffect,
                format!(
                    "`{}` is not in the list of the layer above",
                    quote(entry.get_ref())
                ),
            )
            .help(format!("a lower layer can only shorten `{name}`"));
            reader.push(entry.span(), problem);
        }
    }
    let kept: BTreeSet<&String> = new.iter().map(Spanned::get_ref).collect();
    list.retain(|entry| kept.contains(entry));
}

/// Adds what the list does not have.
pub(super) fn add<T: PartialEq>(list: &mut Vec<T>, entry: T) {
    if !list.contains(&entry) {
        list.push(entry);
    }
}
