//! The files that an import writes.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::Meaning;

/// Every use of a tool, the start of another agent among them.
const USE: &str = r#"action in [Bridge::Action::"tool_use", Bridge::Action::"delegate"]"#;

/// `permission.cedar`
pub(super) fn cedar(policy: &Meaning) -> String {
    let mut out = String::from(
        "// Taken over from a legacy permission policy. Blocked tools come before blocked patterns,\n\
         // patterns before tools to ask for, those before the list of allowed tools.\n",
    );
    let mut ids = Ids::default();
    let blocked = one_of(&policy.blocked);
    let patterns: Vec<String> = (1..=policy.patterns.len()).map(pattern_id).collect();
    let matched = any_pattern(&patterns);

    for tool in &policy.blocked {
        let reason = format!("Tool \"{}\" is blocked by policy", shown(tool));
        out.push_str(
            &Rule {
                id: ids.of("blocked-tool", tool),
                reason,
                ask: false,
                when: Some(is(tool)),
                unless: Vec::new(),
            }
            .forbid(),
        );
    }
    for (index, expression) in policy.patterns.iter().enumerate() {
        let id = pattern_id(index + 1);
        let earlier = patterns.get(..index).and_then(any_pattern);
        out.push_str(
            &Rule {
                when: Some(format!("context.patterns.contains({})", quoted(&id))),
                reason: format!(
                    "Tool arguments matched blocked pattern: {}",
                    expression.source
                ),
                id,
                ask: false,
                unless: [blocked.clone(), earlier].into_iter().flatten().collect(),
            }
            .forbid(),
        );
    }
    for tool in policy
        .ask
        .iter()
        .filter(|tool| !policy.blocked.contains(tool))
    {
        let reason = format!("Tool \"{}\" requires approval", shown(tool));
        out.push_str(
            &Rule {
                id: ids.of("ask-tool", tool),
                reason,
                ask: true,
                when: Some(is(tool)),
                unless: matched.clone().into_iter().collect(),
            }
            .forbid(),
        );
    }
    if policy.allowed.is_empty() {
        let _ = write!(
            out,
            "\n@id(\"every-tool\")\n@reason(\"every tool is allowed that nothing above blocks\")\npermit(principal, {USE}, resource);\n"
        );
    } else {
        let permitted = one_of(&[&*policy.allowed, &*policy.ask].concat());
        out.push_str(
            &Rule {
                id: "not-in-allowed-list".to_owned(),
                reason: "Tool \"{tool}\" is not in the allowed list".to_owned(),
                ask: false,
                when: None,
                unless: [permitted.clone(), blocked, matched]
                    .into_iter()
                    .flatten()
                    .collect(),
            }
            .forbid(),
        );
        let _ = write!(
            out,
            "\n@id(\"allowed-tools\")\n@reason(\"Tool \\\"{{tool}}\\\" is in the allowed list\")\npermit(principal, {USE}, resource)\nwhen {{ {} }};\n",
            permitted.unwrap_or_default()
        );
    }
    out.push_str(
        "\n@id(\"other-events\")\n@reason(\"the legacy policy spoke of tools only\")\n\
         permit(\n  principal,\n  action in [\n    Bridge::Action::\"prompt\",\n    Bridge::Action::\"result\",\n    \
         Bridge::Action::\"session\",\n    Bridge::Action::\"error\"\n  ],\n  resource\n);\n",
    );
    out
}

/// `permission.toml`
pub(super) fn patterns(policy: &Meaning) -> String {
    let mut out = String::from("# Taken over from a legacy permission policy.\nformat = 1\n");
    for (index, expression) in policy.patterns.iter().enumerate() {
        let source = toml::Value::String(expression.source.clone());
        let _ = write!(
            out,
            "\n[[pattern]]\nid = \"{}\"\npattern = {source}\nignore_case = {}\non = \"json\"\n",
            pattern_id(index + 1),
            expression.ignore_case
        );
    }
    out
}

/// One `forbid`.
struct Rule {
    id: String,
    reason: String,
    ask: bool,
    when: Option<String>,
    unless: Vec<String>,
}

impl Rule {
    fn forbid(&self) -> String {
        let mut out = format!("\n@id({})\n", quoted(&self.id));
        if self.ask {
            out.push_str("@decision(\"ask\")\n");
        }
        let _ = write!(
            out,
            "@reason({})\nforbid(principal, {USE}, resource)",
            quoted(&self.reason)
        );
        if let Some(when) = &self.when {
            let _ = write!(out, "\nwhen {{ {when} }}");
        }
        // One clause each, so that a long list of conditions does not nest.
        for unless in &self.unless {
            let _ = write!(out, "\nunless {{ {unless} }}");
        }
        out.push_str(";\n");
        out
    }
}

/// Ids made of names, none of them twice.
#[derive(Default)]
struct Ids(BTreeSet<String>);

impl Ids {
    fn of(&mut self, kind: &str, name: &str) -> String {
        let slug: String = name
            .chars()
            .take(60)
            .map(|c| {
                if c.is_ascii_alphanumeric() || "-_.".contains(c) {
                    c
                } else {
                    '-'
                }
            })
            .collect();
        let mut id = format!("{kind}-{slug}");
        let mut number = 1;
        while !self.0.insert(id.clone()) {
            number += 1;
            id = format!("{kind}-{slug}-{number}");
        }
        id
    }
}

fn pattern_id(number: usize) -> String {
    format!("blocked-pattern-{number}")
}

fn is(tool: &str) -> String {
    format!("context.tool == {}", quoted(tool))
}

/// A condition on the tool's name; `None` for no name, as Cedar has no empty list.
fn one_of(tools: &[String]) -> Option<String> {
    (!tools.is_empty()).then(|| format!("{}.contains(context.tool)", list(tools)))
}

fn any_pattern(ids: &[String]) -> Option<String> {
    (!ids.is_empty()).then(|| format!("context.patterns.containsAny({})", list(ids)))
}

fn list(texts: &[String]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
    format!("[{}]", texts.join(", "))
}

/// The name as a reason shows it. One with braces is filled in, so that it cannot be a placeholder.
fn shown(tool: &str) -> &str {
    if tool.contains('{') { "{tool}" } else { tool }
}

/// A text as Cedar writes it.
fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            c if c.is_control() => {
                let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
