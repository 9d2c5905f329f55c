//! Where a bundle lies.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use url::{Host, Url};

use super::sealed::LIMIT;
use super::{Refusal, printable};
use crate::facts::paths::words;

/// Where a bundle lies. It holds no secret: those come from the environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A file of this machine, or of one that is mounted.
    File(PathBuf),
    /// A web server; plain HTTP on this machine only.
    Web(Url),
    /// An object store: Amazon S3 and what speaks like it, Google Cloud Storage, Azure Blob Storage.
    Store(Store, Url),
    /// A reference in an OCI registry: `registry/repository:tag` or `@sha256:…`.
    Oci(String),
}

/// A kind of object store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Store {
    /// Amazon S3, and what speaks like it.
    S3,
    /// Google Cloud Storage.
    Gcs,
    /// Azure Blob Storage.
    Azure,
}

/// What proves to a server who asks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    /// The variable that holds the user's name.
    pub user: Option<String>,
    /// The variable that holds the password, or without a user a bearer token.
    pub password: Option<String>,
}

impl Address {
    /// The bytes that lie there, at most [`LIMIT`] of them.
    ///
    /// # Errors
    /// In words, if they cannot be had.
    pub fn get(&self, credentials: &Credentials) -> Result<Vec<u8>, Refusal> {
        match self {
            Self::File(path) => read(path),
            #[cfg(feature = "serve")]
            _ => super::remote::get(self, credentials),
            #[cfg(not(feature = "serve"))]
            _ => {
                let _ = credentials;
                Err(Refusal::new(
                    "this program was built without `serve`, and fetches from files only",
                ))
            }
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "file://{}", path.display()),
            // What stands behind a question mark may be a secret: signed addresses have theirs there.
            Self::Web(url) | Self::Store(_, url) => {
                let mut shown = url.clone();
                shown.set_query(None);
                write!(f, "{shown}")
            }
            Self::Oci(reference) => write!(f, "oci://{reference}"),
        }
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.contains(char::is_control) {
            return Err("an address has no control characters".to_owned());
        }
        if let Some(reference) = text.strip_prefix("oci://") {
            return oci(reference);
        }
        if text.starts_with('/') {
            return Ok(Self::File(PathBuf::from(text)));
        }
        let url: Url = text.parse().map_err(|_| unknown())?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(
                "a secret does not belong into an address: name the variables that hold it"
                    .to_owned(),
            );
        }
        let bucket = |store| match (url.host_str(), url.path().trim_matches('/')) {
            (None | Some(""), _) | (_, "") => {
                Err("this names a bucket and the object in it: `s3://bucket/path`".to_owned())
            }
            _ => Ok(Self::Store(store, url.clone())),
        };
        match url.scheme() {
            "file" => {
                let path = url.to_file_path();
                path.map(Self::File)
                    .map_err(|()| "this names no file of this machine".to_owned())
            }
            "https" => Ok(Self::Web(url)),
            "http" if is_loopback(&url) => Ok(Self::Web(url)),
            "http" => Err("plain `http` is for this machine only: use `https`".to_owned()),
            "s3" => bucket(Store::S3),
            "gs" => bucket(Store::Gcs),
            "az" => bucket(Store::Azure),
            _ => Err(unknown()),
        }
    }
}

/// Whether an address is this machine's own.
pub(super) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

fn unknown() -> String {
    "an address begins with `file://`, `https://`, `s3://`, `gs://`, `az://` or `oci://`".to_owned()
}

fn oci(reference: &str) -> Result<Address, String> {
    let (registry, rest) = reference.split_once('/').unwrap_or((reference, ""));
    // Without that, a word would be a folder of somebody else's registry.
    let is_host = registry.contains(['.', ':']) || registry == "localhost";
    if !is_host || rest.is_empty() || registry.contains('@') {
        return Err(
            "this names a registry and a repository: `oci://registry.example/repository:tag`"
                .to_owned(),
        );
    }
    Ok(Address::Oci(reference.to_owned()))
}

fn read(path: &Path) -> Result<Vec<u8>, Refusal> {
    let failed = |error: &std::io::Error| {
        let shown = printable(&path.display().to_string());
        Refusal::new(format!("cannot read `{shown}`: {}", words(error)))
    };
    // A FIFO would never end.
    let metadata = path.metadata().map_err(|error| failed(&error))?;
    if !metadata.is_file() {
        let error = std::io::Error::other("it is no plain file");
        return Err(failed(&error));
    }
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(LIMIT + 1).read_to_end(&mut bytes))
        .map_err(|error| failed(&error))?;
    if bytes.len() as u64 > LIMIT {
        return Err(too_large());
    }
    Ok(bytes)
}

pub(super) fn too_large() -> Refusal {
    Refusal::new(format!(
        "what lies there is too large: a policy bundle has {LIMIT} bytes at most"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_what_may_be_secret() {
        for (text, shown) in [
            ("/srv/acme.bundle", "file:///srv/acme.bundle"),
            ("file:///srv/acme.bundle", "file:///srv/acme.bundle"),
            ("https://x.example/a?sig=s3cr3t", "https://x.example/a"),
            ("http://127.0.0.1:80/a", "http://127.0.0.1/a"),
            ("http://[::1]:81/a", "http://[::1]:81/a"),
            ("s3://bucket/a/b", "s3://bucket/a/b"),
            ("oci://localhost:5000/a/b:7", "oci://localhost:5000/a/b:7"),
            ("oci://r.example/a@sha256:00", "oci://r.example/a@sha256:00"),
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), shown);
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for (text, why) in [
            ("", "begins with"),
            ("a.bundle", "begins with"),
            ("ftp://x/y", "begins with"),
            ("http://x.example/a", "plain `http`"),
            ("http://127.0.0.1.example/a", "plain `http`"),
            ("https://me:secret@x.example/a", "secret"),
            ("s3://bucket", "bucket"),
            ("gs:///a", "bucket"),
            ("oci://acme/policies", "registry"),
            ("oci://me:pw@r.example/a", "registry"),
            ("oci://r.example", "registry"),
        ] {
            let found = text.parse::<Address>().unwrap_err();
            assert!(found.contains(why), "{text}: {found}");
        }
    }
}
