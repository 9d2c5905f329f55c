//! What the texts of an event hold that must not go on, and the same texts without it.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::OnceLock;

use serde_json::Value;

use super::event::{Body, Event, ToolCall};
use crate::engine::bundle::Bundle;
use crate::engine::decision::Obligation;
use crate::engine::redaction::{Fault, Hit, Packed, Redactor, Ruleset, contains_placeholder};
use crate::facts::tools;

/// Where the arguments of a call stand, in the pointers of the record.
pub(super) const ARGUMENTS: &str = "/args";

/// What ends a text that was cut.
const CUT: &str = "\n[truncated]";

/// The rulesets of a bundle, opened when the first event needs them.
#[derive(Debug, Default)]
pub(super) struct Rulebook {
    secrets: OnceLock<Result<Ruleset, Fault>>,
    phi: OnceLock<Result<Ruleset, Fault>>,
}

/// The rules of an event and the key of this installation: who redacts, and by what.
pub(super) struct Cleaner<'a> {
    secrets: Option<&'a Ruleset>,
    phi: Option<&'a Ruleset>,
    key: [u8; 32],
}

impl fmt::Debug for Cleaner<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The key stays out of every log.
        f.debug_struct("Cleaner").finish_non_exhaustive()
    }
}

/// What was found, for the policies and the record.
#[derive(Debug, Clone, Default)]
pub(super) struct Found {
    /// The rules that found secrets.
    pub secrets: BTreeSet<String>,
    /// The rules that found health information.
    pub health: BTreeSet<String>,
    /// Whether the arguments hold a placeholder.
    pub placeholder: bool,
    /// The arguments without both.
    pub args: Option<Value>,
    /// The text without secrets.
    pub no_secrets: Option<String>,
    /// The text without secrets and health information.
    pub nothing: Option<String>,
    /// The content without secrets.
    pub content_no_secrets: Option<Value>,
    /// The content without secrets and health information.
    pub content_nothing: Option<Value>,
    /// Everything that was found.
    pub hits: Vec<Hit>,
}

impl Rulebook {
    fn open<'a>(
        cell: &'a OnceLock<Result<Ruleset, Fault>>,
        packed: &Packed,
    ) -> Result<&'a Ruleset, Fault> {
        cell.get_or_init(|| packed.open())
            .as_ref()
            .map_err(|fault| *fault)
    }

    /// The rules for an event. Health information is looked for only where there may be some, and
    /// nothing where there is no text.
    ///
    /// # Errors
    /// If the compiled rules cannot be read.
    pub(super) fn cleaner(
        &self,
        event: &Event,
        bundle: &Bundle,
        phi: bool,
        key: [u8; 32],
    ) -> Result<Cleaner<'_>, Fault> {
        let rules = &bundle.settings.redaction;
        let needed = event.call().is_some() || text(event).is_some();
        let secrets = needed.then(|| Self::open(&self.secrets, &rules.secrets));
        let phi = (needed && phi).then(|| Self::open(&self.phi, &rules.phi));
        Ok(Cleaner {
            secrets: secrets.transpose()?,
            phi: phi.transpose()?,
            key,
        })
    }
}

impl Cleaner<'_> {
    /// What an event's arguments and text hold.
    ///
    /// # Errors
    /// If not all of it can be looked at.
    pub(super) fn look(&self, event: &Event) -> Result<Found, Fault> {
        let mut found = Found::default();
        if let Some(ToolCall { args, .. }) = event.call() {
            let mut texts = Vec::new();
            tools::texts(args, &mut texts);
            found.placeholder = texts.iter().any(|text| contains_placeholder(text));
            let mut clean = args.clone();
            for (rules, health) in self.rulesets() {
                let redacted = Redactor::new(&[rules], &self.key).value(&clean)?;
                found.note(redacted.hits, health, ARGUMENTS);
                clean = redacted.value;
            }
            found.args = Some(clean);
        }
        if let Some(text) = text(event) {
            for (rules, health) in self.rulesets() {
                let given = found.no_secrets.as_deref().unwrap_or(text);
                let redacted = Redactor::new(&[rules], &self.key).text(given)?;
                found.note(redacted.hits, health, "/text");
                let clean = if health {
                    &mut found.nothing
                } else {
                    &mut found.no_secrets
                };
                *clean = Some(redacted.value);
            }
        }
        if let Body::Content { content, .. } = &event.body {
            for (rules, health) in self.rulesets() {
                let given = found.content_no_secrets.as_ref().unwrap_or(content);
                let redacted = Redactor::new(&[rules], &self.key).value(given)?;
                found.note(redacted.hits, health, "/content");
                let clean = if health {
                    &mut found.content_nothing
                } else {
                    &mut found.content_no_secrets
                };
                *clean = Some(redacted.value);
            }
        }
        if self.phi.is_some() {
            // Keys may be names of people.
            for hit in &mut found.hits {
                hit.pointer = self.without(&hit.pointer, true, true)?;
            }
        }
        Ok(found)
    }

    /// The text that goes on in the place of the event's, if it is not the same.
    ///
    /// # Errors
    /// If not all of it can be looked at.
    pub(super) fn replace(
        &self,
        event: &Event,
        found: &Found,
        obligations: &[Obligation],
        limit: u32,
    ) -> Result<Option<String>, Fault> {
        let Some(given) = text(event) else {
            return Ok(None);
        };
        let due = |obligation| obligations.contains(&obligation);
        let secrets = due(Obligation::RedactSecrets);
        let health = due(Obligation::RedactPhi) && self.phi.is_some();
        let mut text = match (secrets, health, &found.no_secrets, &found.nothing) {
            (true, true, _, Some(text)) | (true, false, Some(text), _) => text.clone(),
            (false, false, ..) => given.to_owned(),
            _ => self.without(given, secrets, health)?,
        };
        if due(Obligation::Truncate) && event.host.replaces_results {
            truncate(&mut text, limit as usize);
        }
        Ok((text != given).then_some(text))
    }

    /// The content that goes on in the place of the event's, if it is not the same.
    ///
    /// # Errors
    /// If not all of it can be looked at.
    pub(super) fn replace_content(
        &self,
        event: &Event,
        found: &Found,
        obligations: &[Obligation],
        limit: u32,
    ) -> Result<Option<Value>, Fault> {
        let Body::Content { content: given, .. } = &event.body else {
            return Ok(None);
        };
        let due = |obligation| obligations.contains(&obligation);
        let secrets = due(Obligation::RedactSecrets);
        let health = due(Obligation::RedactPhi) && self.phi.is_some();
        let mut content = match (
            secrets,
            health,
            &found.content_no_secrets,
            &found.content_nothing,
        ) {
            (true, true, _, Some(clean)) | (true, false, Some(clean), _) => clean.clone(),
            (false, false, ..) => given.clone(),
            _ => {
                let rules = self.rulesets();
                let due = rules.filter(|(_, of_health)| if *of_health { health } else { secrets });
                let mut clean = given.clone();
                for (rules, _) in due {
                    clean = Redactor::new(&[rules], &self.key).value(&clean)?.value;
                }
                clean
            }
        };
        // What is structured keeps its form, and is never longer than a host lets it be.
        if due(Obligation::Truncate)
            && let Some(blocks) = content.get_mut("content").and_then(Value::as_array_mut)
        {
            for block in blocks {
                if let Some(Value::String(text)) = block.get_mut("text") {
                    truncate(text, limit as usize);
                }
            }
        }
        Ok((content != *given).then_some(content))
    }

    /// A text of the record without what must not stand there.
    pub(super) fn record(&self, text: &str) -> Option<String> {
        self.without(text, true, true).ok()
    }

    fn without(&self, text: &str, secrets: bool, health: bool) -> Result<String, Fault> {
        let mut text = text.to_owned();
        let due = self
            .rulesets()
            .filter(|(_, of_health)| if *of_health { health } else { secrets });
        for (rules, _) in due {
            text = Redactor::new(&[rules], &self.key).text(&text)?.value;
        }
        Ok(text)
    }

    fn rulesets(&self) -> impl Iterator<Item = (&Ruleset, bool)> {
        let secrets = self.secrets.map(|rules| (rules, false));
        secrets
            .into_iter()
            .chain(self.phi.map(|rules| (rules, true)))
    }
}

impl Found {
    fn note(&mut self, hits: Vec<Hit>, health: bool, part: &str) {
        let rules = if health {
            &mut self.health
        } else {
            &mut self.secrets
        };
        for hit in hits {
            rules.insert(hit.rule.clone());
            let pointer = format!("{part}{}", hit.pointer);
            self.hits.push(Hit { pointer, ..hit });
        }
    }
}

/// The text that an event brings, apart from its arguments.
fn text(event: &Event) -> Option<&str> {
    match &event.body {
        Body::Result { text, .. } | Body::Prompt { text } => Some(text),
        _ => None,
    }
}

/// Cuts a text after so many bytes, between two characters.
fn truncate(text: &mut String, limit: usize) {
    if text.len() > limit {
        text.truncate(text.floor_char_boundary(limit));
        text.push_str(CUT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_two_characters() {
        for (given, limit, expected) in [
            ("abc", 3, "abc"),
            ("abcd", 3, "abc\n[truncated]"),
            ("a😀b", 3, "a\n[truncated]"),
            ("", 0, ""),
        ] {
            let mut text = given.to_owned();
            truncate(&mut text, limit);
            assert_eq!(text, expected, "{given}");
        }
    }
}
