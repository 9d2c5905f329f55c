//! What else has to hold for a secret, besides its shape.

use memchr::memmem;

use super::rule::Conditions;

impl Conditions {
    /// Whether everything holds that needs no expression: `lower` is the secret in lower case.
    pub(super) fn hold(&self, secret: &[u8], lower: &[u8]) -> bool {
        self.require
            .iter()
            .all(|set| secret.iter().any(|byte| set.has(*byte)))
            && self.entropy.is_none_or(|least| entropy(secret) >= least)
            && self.checksum.is_none_or(|check| check.passes(secret))
            && !contains_one(lower, &self.allow)
    }

    /// Whether the texts around a secret let it be one; both are in lower case.
    pub(super) fn surroundings(&self, before: &[u8], behind: &[u8]) -> bool {
        let before = before.trim_ascii_end();
        let behind = behind.trim_ascii_start();
        !self
            .not_before
            .iter()
            .any(|text| before.ends_with(text.as_bytes()))
            && !self
                .not_after
                .iter()
                .any(|text| behind.starts_with(text.as_bytes()))
    }
}

/// Whether one of the texts is contained.
pub(super) fn contains_one(text: &[u8], parts: &[String]) -> bool {
    parts
        .iter()
        .any(|part| memmem::find(text, part.as_bytes()).is_some())
}

/// Shannon's entropy in bits for each byte.
pub(super) fn entropy(text: &[u8]) -> f32 {
    let mut counts = [0_u32; 256];
    for byte in text {
        if let Some(count) = counts.get_mut(usize::from(*byte)) {
            *count += 1;
        }
    }
    let length = text.len() as f32;
    counts
        .iter()
        .filter(|count| **count > 0)
        .map(|count| {
            let share = *count as f32 / length;
            -share * share.log2()
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::super::chars::Chars;
    use super::super::rule::Checksum;
    use super::*;

    #[test]
    fn entropy_counts_bytes() {
        assert_eq!(entropy(b"aaaa"), 0.0);
        assert_eq!(entropy(b"abcd"), 2.0);
        assert_eq!(entropy(b""), 0.0);
    }

    #[test]
    fn every_condition_counts() {
        let digit = Chars::parse("digit").unwrap();
        let conditions = Conditions {
            entropy: Some(1.0),
            checksum: Some(Checksum::Luhn),
            require: vec![digit],
            allow: vec!["0042".to_owned()],
            not_before: vec!["order".to_owned()],
            not_after: vec!["is no card".to_owned()],
            ..Conditions::default()
        };
        assert!(
            conditions.hold(b"4111111111111111".as_slice(), b"4111111111111111")
                == (entropy(b"4111111111111111") >= 1.0)
        );
        assert!(conditions.hold(b"79927398713", b"79927398713"));
        assert!(!conditions.hold(b"79927398714", b"79927398714"));
        assert!(!conditions.hold(b"abc", b"abc"));
        assert!(conditions.surroundings(b"card ", b" is here"));
        assert!(!conditions.surroundings(b"order  ", b""));
        assert!(!conditions.surroundings(b"", b"  is no card"));
    }
}
