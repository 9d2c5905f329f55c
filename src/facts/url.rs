//! Where an address leads, read as browsers read it (WHATWG).

use std::net::{Ipv4Addr, Ipv6Addr};

use url::{Host, Url};

use crate::engine::request::UrlFacts;

/// The schemes that lead over a network.
const NETWORK: [&str; 5] = ["http", "https", "ws", "wss", "ftp"];

/// Names that never leave the machine or its network (RFC 6761, RFC 6762, RFC 8375, `.internal`).
const LOCAL_DOMAINS: [&str; 6] = [
    "localhost",
    "local",
    "localdomain",
    "internal",
    "intranet",
    "home.arpa",
];

/// The facts about an address. Without a scheme it is read as most tools do: as `https`.
#[must_use]
pub fn facts(given: &str) -> UrlFacts {
    let mut facts = UrlFacts {
        given: given.to_owned(),
        ..UrlFacts::default()
    };
    let text = given.trim();
    let parsed = if has_scheme(text) {
        Url::parse(text)
    } else {
        Url::parse(&format!("https://{}", text.trim_start_matches('/')))
    };
    let url = match parsed {
        Ok(url) => url,
        Err(error) => {
            facts.fault = error.to_string();
            return facts;
        }
    };
    url.scheme().clone_into(&mut facts.scheme);
    facts.port = url.port_or_known_default().unwrap_or_default();
    if let Some(host) = url.host() {
        facts.private = is_private(&host);
        facts.host = match host {
            Host::Domain(name) => name.trim_end_matches('.').to_owned(),
            Host::Ipv4(address) => address.to_string(),
            Host::Ipv6(address) => address.to_string(),
        };
    }
    facts.fault = fault(text, &facts).unwrap_or_default().to_owned();
    facts
}

/// Whether a text is an address and nothing else.
#[must_use]
pub fn is_address(text: &str) -> bool {
    let text = text.trim();
    let known = |scheme: &str| NETWORK.contains(&scheme) || scheme == "file";
    !text.contains(char::is_whitespace)
        && text.split_once(':').is_some_and(|(scheme, rest)| {
            rest.starts_with("//") || known(&scheme.to_ascii_lowercase())
        })
}

/// Whether a word that may be an address leads to another machine of the network, or to the cloud's
/// metadata.
#[must_use]
pub fn leads_within(word: &str) -> bool {
    let dotted = |word: &str| {
        let host = word.split(['/', ':']).next().unwrap_or_default();
        host.contains('.')
            && (host.contains(|c: char| c.is_ascii_alphabetic()) || host.matches('.').count() == 3)
    };
    let number = word.len() > 7 && word.chars().all(|c| c.is_ascii_digit());
    if word.starts_with('-') || !(word.contains("://") || dotted(word) || number) {
        return false;
    }
    let facts = facts(word);
    let own = matches!(facts.host.as_str(), "localhost" | "0.0.0.0" | "::1" | "::")
        || facts.host.starts_with("127.")
        || facts.host.ends_with(".localhost");
    // A name without a dot is a service beside this one.
    facts.fault.is_empty() && facts.private && !own && facts.host.contains(['.', ':'])
}

/// `host:port` has no scheme, `mailto:x` has.
fn has_scheme(text: &str) -> bool {
    text.split_once(':').is_some_and(|(scheme, rest)| {
        !scheme.contains('.')
            && scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "+-".contains(c))
            && !rest.starts_with(|c: char| c.is_ascii_digit() && !NETWORK.contains(&scheme))
    })
}

fn fault(text: &str, facts: &UrlFacts) -> Option<&'static str> {
    // Browsers drop line breaks and turn `\` into `/`; other clients find another host there.
    if text.contains(|c: char| c.is_whitespace() || c.is_control() || c == '\\') {
        Some("it holds characters that clients read in different ways")
    } else if !NETWORK.contains(&facts.scheme.as_str()) {
        Some("its scheme does not lead over the network")
    } else if facts.host.is_empty() {
        Some("it names no host")
    } else {
        None
    }
}

fn is_private(host: &Host<&str>) -> bool {
    match host {
        Host::Ipv4(address) => is_private_v4(*address),
        Host::Ipv6(address) => is_private_v6(*address),
        Host::Domain(name) => {
            let name = name.trim_end_matches('.');
            // A name without a dot is looked up in the network's own domain.
            !name.contains('.')
                || LOCAL_DOMAINS.iter().any(|domain| {
                    name.strip_suffix(domain)
                        .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
                })
        }
    }
}

fn is_private_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || a == 0
        || a >= 240
        // Carrier-grade NAT, protocol assignments, benchmarks.
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 198 && (b == 18 || b == 19))
        // Azure answers its virtual machines here.
        || address == Ipv4Addr::new(168, 63, 129, 16)
}

fn is_private_v6(address: Ipv6Addr) -> bool {
    let [first, second, third, ..] = address.segments();
    let inner =
        |high: u16, low: u16| is_private_v4(Ipv4Addr::from(u32::from(high) << 16 | u32::from(low)));
    let [.., sixth, high, low] = address.segments();
    if address.is_loopback()
        || address.is_unspecified()
        || address.is_multicast()
        || address.is_unique_local()
        // Link-local, and what was site-local.
        || first & 0xff80 == 0xfe80
    {
        return true;
    }
    match (first, second) {
        // 6to4, and Teredo, which hides the client's address by flipping it.
        (0x2002, _) => inner(second, third),
        (0x2001, 0) => inner(!high, !low),
        (0x64, 0xff9b) => third != 0 || inner(high, low),
        // Mapped and compatible addresses.
        (0, 0) => (sixth == 0 || sixth == 0xffff) && inner(high, low),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_the_network_are_told_from_ones_own() {
        for word in [
            "http://169.254.169.254/latest",
            "169.254.169.254/latest",
            "http://2852039166/",
            "2852039166",
            "http://[::ffff:169.254.169.254]/",
            "http://0xa9fea9fe/",
            "http://metadata.google.internal/",
            "http://10.0.0.5:80",
        ] {
            assert!(leads_within(word), "{word}");
        }
        for word in [
            "http://localhost:80",
            "127.0.0.1:3000",
            "http://web:8080/",
            "0.5",
            "5",
            "out.json",
            "https://example.com",
            "-s",
        ] {
            assert!(!leads_within(word), "{word}");
        }
    }

    #[test]
    fn an_address_is_read_as_its_host() {
        for (given, scheme, host, port) in [
            ("https://Example.com/a", "https", "example.com", 443),
            ("http://example.com.:8080/", "http", "example.com", 8080),
            ("example.com/x", "https", "example.com", 443),
            ("example.com:81/x", "https", "example.com", 81),
            ("//example.com/x", "https", "example.com", 443),
            ("http:example.com", "http", "example.com", 80),
            (
                "http://good.example@evil.example/",
                "http",
                "evil.example",
                80,
            ),
            ("http://0x7f.1/", "http", "127.0.0.1", 80),
        ] {
            let facts = facts(given);
            assert_eq!(
                (facts.scheme.as_str(), facts.host.as_str(), facts.port),
                (scheme, host, port),
                "{given}"
            );
        }
    }

    #[test]
    fn what_is_inside_the_network_is_private() {
        for given in [
            "http://localhost:3000/",
            "http://LOCALHOST./",
            "http://a.localhost/",
            "http://127.0.0.1/",
            "http://127.1/",
            "http://2130706433/",
            "http://0177.0.0.1/",
            "http://0x7f000001/",
            "http://127%2e0.0.1/",
            "http://１２７.0.0.1/",
            "http://0.0.0.0/",
            "http://10.1.2.3/",
            "http://192.168.0.1/",
            "http://172.31.0.1/",
            "http://169.254.169.254/latest/meta-data/",
            "169.254.169.254/latest",
            "169.254.169.254:80/latest",
            "http:169.254.169.254",
            "http://2852039166/",
            "http://x@169.254.169.254/",
            "http://100.100.100.200/",
            "http://168.63.129.16/",
            "http://[::1]/",
            "http://[::]/",
            "http://[::ffff:169.254.169.254]/",
            "http://[::ffff:a9fe:a9fe]/",
            "http://[::7f00:1]/",
            "http://[64:ff9b::a9fe:a9fe]/",
            "http://[2002:a9fe:a9fe::]/",
            "http://[fd00:ec2::254]/",
            "http://[fe80::1]/",
            "http://metadata.google.internal/",
            "http://metadata/",
            "http://db:5432/",
            "http://printer.local/",
        ] {
            assert!(facts(given).private, "{given}");
        }
        for given in [
            "https://example.com/",
            "https://8.8.8.8/",
            "https://[2606:4700::1111]/",
            "https://172.32.0.1/",
            "https://localhost.example.com/",
            "https://notlocal.example/",
            "https://example.com/?u=http://127.0.0.1/",
        ] {
            let facts = facts(given);
            assert!(!facts.private && facts.fault.is_empty(), "{given}");
        }
    }

    #[test]
    fn what_clients_read_differently_is_a_fault() {
        for given in [
            "",
            "http://",
            "https://exa mple.com",
            "http://good.example\\@evil.example/",
            "http://good\n.example/",
            "http://[::1",
            "http://256.0.0.1/",
            "http://a:99999/",
            "file:///etc/passwd",
            "javascript:alert(1)",
            "data:text/plain,x",
            "mailto:a@b.example",
        ] {
            assert!(!facts(given).fault.is_empty(), "{given:?}");
        }
    }

    #[test]
    fn an_address_stands_alone() {
        for text in [
            "https://a.example",
            " http:a.example ",
            "FILE:/etc/passwd",
            "gopher://x",
        ] {
            assert!(is_address(text), "{text}");
        }
        for text in ["see https://a.example", "a: b", "note:this", "a/b"] {
            assert!(!is_address(text), "{text}");
        }
    }
}
