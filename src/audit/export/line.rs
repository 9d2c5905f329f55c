//! A line of the record, as the forms ask about it.

use jiff::Timestamp;
use serde_json::Value;

/// A line with its id.
#[derive(Debug, Clone)]
pub struct Line<'a> {
    id: String,
    #[cfg(feature = "serve")]
    length: usize,
    value: &'a Value,
}

/// How much a line matters to who watches for trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// It was allowed, or only told.
    Informational,
    /// A person was asked, something was taken out, or a monitored policy would have denied.
    Low,
    /// A policy denied.
    Medium,
    /// Something was broken.
    High,
}

impl<'a> Line<'a> {
    /// The line with those bytes, without a line feed, and the JSON object that they are.
    #[must_use]
    pub fn new(bytes: &[u8], value: &'a Value) -> Self {
        Self {
            id: super::id(bytes),
            #[cfg(feature = "serve")]
            length: bytes.len(),
            value,
        }
    }

    /// Its id: see [`super::id`].
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// How many bytes it has.
    #[cfg(feature = "serve")]
    #[must_use]
    pub const fn length(&self) -> usize {
        self.length
    }

    /// What stands in a field; nothing for null.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&'a Value> {
        self.value.get(name).filter(|value| !value.is_null())
    }

    /// Every field, in its order.
    pub fn fields(&self) -> impl Iterator<Item = (&'a String, &'a Value)> {
        self.value.as_object().into_iter().flatten()
    }

    /// The text in a field: see [`said`].
    #[must_use]
    pub fn text(&self, name: &str) -> Option<String> {
        self.get(name).and_then(said)
    }

    /// The number in a field.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<u64> {
        self.get(name).and_then(Value::as_u64)
    }

    /// When it was written.
    #[must_use]
    pub fn time(&self) -> Option<Timestamp> {
        self.get("ts")?.as_str()?.parse().ok()
    }

    /// Its kind; empty where it has none.
    #[must_use]
    pub fn kind(&self) -> &'a str {
        self.word("kind")
    }

    /// What was answered; empty for lines that are about the record itself.
    #[must_use]
    pub fn decision(&self) -> &'a str {
        match self.kind() {
            "recovered" | "lost" | "removed" | "rotated" | "policy" | "approval" => "",
            _ => self.word("decision"),
        }
    }

    /// The request that tells most. That a tool is used says less than what it is used for.
    #[must_use]
    pub fn request(&self) -> Option<&'a Value> {
        let all = self.get("requests")?.as_array()?;
        all.iter()
            .find(|one| resource_type(one) != Some("tool"))
            .or_else(|| all.first())
    }

    /// The policies that decided.
    #[must_use]
    pub fn policies(&self) -> Vec<String> {
        self.each("reasons", "id")
    }

    /// The rules that found something.
    #[must_use]
    pub fn rules(&self) -> Vec<String> {
        self.each("redactions", "rule")
    }

    /// Whether it worked, where that is known.
    #[must_use]
    pub fn succeeded(&self) -> Option<bool> {
        let failed = self.value.pointer("/detail/failed");
        match (self.decision(), self.kind()) {
            ("deny", _) => Some(false),
            (_, "result") => failed.and_then(Value::as_bool).map(|failed| !failed),
            _ => None,
        }
    }

    /// How much it matters.
    #[must_use]
    pub fn severity(&self) -> Severity {
        let broken = matches!(self.kind(), "fault" | "recovered" | "superseded" | "lost");
        if broken || self.get("error_class").is_some() {
            Severity::High
        } else if self.decision() == "deny" {
            Severity::Medium
        } else if self.decision() == "ask"
            || self.decision() != "" && self.word("would_decide") != self.decision()
            || !self.rules().is_empty()
        {
            Severity::Low
        } else {
            Severity::Informational
        }
    }

    /// One sentence for people: `deny: shell sudo ls`.
    #[must_use]
    pub fn summary(&self) -> String {
        let event = self.text("event").unwrap_or_default();
        let about = self.request().map_or(event, |request| {
            let action = request.get("action").and_then(said).unwrap_or_default();
            let resource = request.get("resource").unwrap_or(&Value::Null);
            let part = |name: &str| resource.get(name).and_then(said);
            let what = part("text")
                .or_else(|| part("given"))
                .or_else(|| part("name"))
                .or_else(|| part("kind"))
                .unwrap_or_default();
            format!("{action} {what}")
        });
        match self.decision() {
            "" => about,
            decision => format!("{decision}: {about}"),
        }
    }

    fn word(&self, name: &str) -> &'a str {
        self.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    fn each(&self, list: &str, name: &str) -> Vec<String> {
        let all = self.get(list).and_then(Value::as_array);
        all.into_iter()
            .flatten()
            .filter_map(|one| one.get(name).and_then(said))
            .collect()
    }
}

/// The type of what a request is about.
pub(super) fn resource_type(request: &Value) -> Option<&str> {
    request.pointer("/resource/type").and_then(Value::as_str)
}

/// A text as it stands there; of a hidden one `hidden:` and its HMAC, so that equal ones can be
/// found. Nothing for what is no text.
pub(super) fn said(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Object(fields) => {
            let hmac = fields.get("hmac").and_then(Value::as_str)?;
            fields.get("len").map(|_| format!("hidden:{hmac}"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_matters_most_decides_the_severity() {
        let severity = |value: Value| Line::new(b"", &value).severity();
        let judged = |decision: &str| json!({"kind": "tool_use", "decision": decision, "would_decide": decision});
        assert_eq!(severity(judged("allow")), Severity::Informational);
        assert_eq!(severity(judged("ask")), Severity::Low);
        assert_eq!(severity(judged("deny")), Severity::Medium);
        let mut broken = judged("deny");
        broken["error_class"] = "deadline".into();
        assert_eq!(severity(broken), Severity::High);
        let mut monitored = judged("allow");
        monitored["would_decide"] = "deny".into();
        assert_eq!(severity(monitored), Severity::Low);
        let mut cleaned = judged("allow");
        cleaned["redactions"] = json!([{"rule": "github-token"}]);
        assert_eq!(severity(cleaned), Severity::Low);
        assert_eq!(
            severity(json!({"kind": "removed", "decision": "deny"})),
            Severity::Informational
        );
        assert_eq!(
            severity(json!({"kind": "later", "n": 1})),
            Severity::Informational
        );
    }

    #[test]
    fn a_hidden_text_is_told_by_its_hmac() {
        let value = json!({"session": {"hmac": "ab12", "len": 900}, "call": "c", "agent": null, "detail": {}});
        let line = Line::new(b"", &value);
        assert_eq!(line.text("session").as_deref(), Some("hidden:ab12"));
        assert_eq!(line.text("call").as_deref(), Some("c"));
        for name in ["agent", "detail", "nothing"] {
            assert_eq!(line.text(name), None, "{name}");
        }
    }
}
