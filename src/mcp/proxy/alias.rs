//! The names by which clients call tools of other servers: `server__tool`, with a stable form in
//! letters, digits, `_` and `-` for whatever else a server or a tool is called (R-003-65).
//!
//! Two tools never share a name: the first `__` ends the server's part, which never holds one; what is
//! encoded says so in front, and what would only look like that is encoded too.

use data_encoding::{BASE32_NOPAD, Encoding};
use sha2::{Digest, Sha256};

/// No name that clients call is longer: what models take.
const LONGEST: usize = 64;

/// The server's part is no longer.
const SERVER: usize = 24;

const BETWEEN: &str = "__";

/// In front of a part in base32.
const ENCODED: &str = "b32_";

/// In front of a part that would be too long in base32: a digest of it.
const DIGEST: &str = "sha_";

/// What stands in front of the names of a server's tools.
pub(super) fn prefix(server: &str) -> String {
    // A person gives the names of servers: 100 bits are enough.
    let mut part = part(server, SERVER, 12);
    part.push_str(BETWEEN);
    part
}

/// The name by which clients call a tool of a server.
pub(super) fn name(server: &str, tool: &str) -> String {
    let mut name = prefix(server);
    name.push_str(&part(tool, LONGEST - name.len(), 20));
    name
}

fn part(text: &str, longest: usize, digest: usize) -> String {
    let plain = !text.is_empty()
        && text.len() <= longest
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
        && !text.contains(BETWEEN)
        && !text.ends_with('_')
        && !text.starts_with('_')
        && !text.starts_with(ENCODED)
        && !text.starts_with(DIGEST);
    if plain {
        return text.to_owned();
    }
    let encoded = format!("{ENCODED}{}", small(&BASE32_NOPAD, text.as_bytes()));
    if encoded.len() <= longest {
        return encoded;
    }
    let whole = Sha256::digest(text.as_bytes());
    let digest = whole.get(..digest).unwrap_or(&whole);
    format!("{DIGEST}{}", small(&BASE32_NOPAD, digest))
}

fn small(encoding: &Encoding, bytes: &[u8]) -> String {
    encoding.encode(bytes).to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn plain_names_stay() {
        assert_eq!(name("files", "read_file"), "files__read_file");
        assert_eq!(name("my-files", "read-file"), "my-files__read-file");
    }

    #[test]
    fn every_pair_has_a_name_of_its_own_that_clients_take() {
        let long = "x".repeat(200);
        let parts = [
            "a",
            "b",
            "a_",
            "_a",
            "a__b",
            "b__c",
            "A",
            "b32_me",
            "sha_me",
            "",
            " ",
            "a b",
            "a.b",
            "a/b",
            "\u{e9}",
            "e\u{301}",
            "\u{1f600}",
            "../..",
            "__",
            "_",
            &long,
            "0123456789012345678901234567890",
        ];
        let mut names = BTreeMap::new();
        for server in parts {
            for tool in parts {
                let name = name(server, tool);
                assert!(name.len() <= LONGEST, "{name}");
                assert!(name.starts_with(&prefix(server)), "{name}");
                assert!(
                    name.bytes()
                        .all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte)),
                    "{name}"
                );
                let known = names.insert(name.clone(), (server, tool));
                assert_eq!(known, None, "{name}");
            }
        }
        assert_eq!(name("a", "b c"), "a__b32_miqgg");
    }
}
