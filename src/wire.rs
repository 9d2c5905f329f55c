//! What services behind this program are reached by: their addresses, and the JSON Schemas of what
//! they take.

use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::Value;
use url::{Host, Url};

/// The address of a service, without a slash at its end.
///
/// # Errors
/// In words, if nobody may be called there.
pub fn address(text: &str) -> Result<String, &'static str> {
    let url = Url::parse(text).map_err(|_| "this is no address")?;
    let local = match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => return Err("this address names no host"),
    };
    match url.scheme() {
        "https" => {}
        "http" if local => {}
        "http" => return Err("plain `http` is for this machine only: use `https`"),
        _ => return Err("an address begins with `https://`, or with `http://` for this machine"),
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("an address holds no secret: `auth` names the variable that does");
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("what routes stand behind ends with a path");
    }
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

/// Compiles a schema of the draft 2020-12, which is MCP's: offline, and without expressions that
/// backtrack.
///
/// # Errors
/// In the library's words, if it is none.
pub fn schema(schema: &Value) -> Result<Validator, String> {
    jsonschema::options()
        .with_draft(Draft::Draft202012)
        .with_pattern_options(PatternOptions::regex())
        .build(schema)
        .map_err(|error| error.to_string())
}

/// Tries the schema of one argument, and its default by it.
///
/// # Errors
/// What is wrong with it.
pub fn argument(schema: &Value) -> Result<(), String> {
    let validator = self::schema(schema)?;
    match schema.get("default") {
        Some(default) => validator
            .validate(default)
            .map_err(|error| format!("its default is wrong: {error}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_service_is_called_over_tls_or_on_this_machine() {
        for (text, expected) in [
            ("https://x.example/api/", Ok("https://x.example/api")),
            ("http://127.0.0.1:8080", Ok("http://127.0.0.1:8080")),
            ("http://[::1]:1/", Ok("http://[::1]:1")),
            ("http://localhost/a", Ok("http://localhost/a")),
            (
                "http://x.example",
                Err("plain `http` is for this machine only: use `https`"),
            ),
            (
                "http://127.0.0.1.x.example",
                Err("plain `http` is for this machine only: use `https`"),
            ),
            (
                "ftp://x.example",
                Err("an address begins with `https://`, or with `http://` for this machine"),
            ),
            ("x", Err("this is no address")),
            ("unix:/a", Err("this address names no host")),
            (
                "https://me:secret@x.example",
                Err("an address holds no secret: `auth` names the variable that does"),
            ),
            (
                "https://x.example/?key=1",
                Err("what routes stand behind ends with a path"),
            ),
        ] {
            assert_eq!(address(text), expected.map(str::to_owned), "{text}");
        }
    }

    #[test]
    fn a_default_fits_its_schema() {
        assert_eq!(argument(&json!({"type": "string", "default": "a"})), Ok(()));
        let wrong = argument(&json!({"enum": ["a"], "default": "b"})).unwrap_err();
        assert!(wrong.starts_with("its default is wrong: "), "{wrong}");
        for none in [
            json!({"type": "text"}),
            json!({"type": "string", "pattern": "("}),
            json!({"$ref": "https://x.example/schema.json"}),
        ] {
            assert!(argument(&none).is_err(), "{none}");
        }
    }
}
