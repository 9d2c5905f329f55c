//! Bundles that lie elsewhere: web servers, object stores and OCI registries.
//!
//! The runtime lives as long as one call. What comes is bounded in bytes and in time, and believed for its
//! signatures only.

use std::error::Error;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::path::Path;
use object_store::{ClientOptions, ObjectStore, ObjectStoreExt, RetryConfig};
use oci_client::client::{ClientConfig, ClientProtocol};
use oci_client::manifest::OciDescriptor;
use oci_client::secrets::RegistryAuth;
use oci_client::{Client, Reference};
use reqwest::redirect::Policy;
use tokio::io::AsyncWrite;
use url::Url;

use super::address::{Address, Credentials, Store, is_loopback, too_large};
use super::sealed::{LIMIT, PAYLOAD_TYPE};
use super::{Refusal, printable};

/// How long all of it may take.
const LONGEST: Duration = Duration::from_mins(2);

/// How long a connection may take to stand, and a server may be silent.
const SILENT: Duration = Duration::from_secs(15);

/// So many times an object store is asked again.
const REPEATS: usize = 3;

const AGENT: &str = concat!("copilot-bridge/", env!("CARGO_PKG_VERSION"));

pub(super) fn get(address: &Address, credentials: &Credentials) -> Result<Vec<u8>, Refusal> {
    let failed = |why: &str| Refusal::new(format!("cannot fetch `{address}`: {why}"));
    // Another provider that was installed before does as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| failed(&error.kind().to_string()))?;
    let user = secret(credentials.user.as_deref())?;
    let password = secret(credentials.password.as_deref())?;
    let work = async {
        match address {
            Address::Web(url) => web(url, user, password).await,
            Address::Store(store, url) => object(*store, url).await,
            Address::Oci(reference) => layer(reference, user, password).await,
            // `Address` reads files itself.
            Address::File(_) => Err(Failure::Said("it is a file".to_owned())),
        }
    };
    let found = runtime.block_on(async { tokio::time::timeout(LONGEST, work).await });
    match found {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(Failure::TooLarge)) => Err(too_large()),
        Ok(Err(Failure::Said(why))) => Err(failed(&printable(&why))),
        Err(_) => Err(failed("it takes too long")),
    }
}

enum Failure {
    TooLarge,
    Said(String),
}

impl From<reqwest::Error> for Failure {
    fn from(error: reqwest::Error) -> Self {
        // The address may hold a secret.
        Self::Said(root(&error.without_url()))
    }
}

impl From<object_store::Error> for Failure {
    fn from(error: object_store::Error) -> Self {
        use object_store::Error as E;
        Self::Said(match &error {
            E::NotFound { .. } => "there is no such object".to_owned(),
            E::PermissionDenied { .. } | E::Unauthenticated { .. } => {
                "the store does not let us read it".to_owned()
            }
            error => without_queries(&root(error)),
        })
    }
}

impl From<oci_client::errors::OciDistributionError> for Failure {
    fn from(error: oci_client::errors::OciDistributionError) -> Self {
        Self::Said(without_queries(&root(&error)))
    }
}

/// What a variable holds.
fn secret(variable: Option<&str>) -> Result<Option<String>, Refusal> {
    variable
        .map(|name| {
            std::env::var(name).map_err(|_| {
                Refusal::new(format!("the variable `{name}` is not set, or is no UTF-8"))
            })
        })
        .transpose()
}

async fn web(
    url: &Url,
    user: Option<String>,
    password: Option<String>,
) -> Result<Vec<u8>, Failure> {
    let client = reqwest::Client::builder()
        .https_only(!is_loopback(url))
        .redirect(Policy::limited(5))
        .connect_timeout(SILENT)
        .read_timeout(SILENT)
        .user_agent(AGENT)
        .build()?;
    let request = client.get(url.clone());
    let request = match (user, password) {
        (Some(user), password) => request.basic_auth(user, password),
        (None, Some(token)) => request.bearer_auth(token),
        (None, None) => request,
    };
    let mut response = request.send().await?;
    let status = response.status();
    if !status.is_success() {
        // The words behind the number are the server's own.
        let words = status.canonical_reason().unwrap_or_default();
        let said = format!("the server answered {} {words}", status.as_u16());
        return Err(Failure::Said(said.trim_end().to_owned()));
    }
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if (bytes.len() + chunk.len()) as u64 > LIMIT {
            return Err(Failure::TooLarge);
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

/// Who may read it is said where every program of these clouds looks: in the environment, and by the
/// machine's own identity.
async fn object(store: Store, url: &Url) -> Result<Vec<u8>, Failure> {
    let bucket = url.host_str().unwrap_or_default();
    let wrong = |error: object_store::path::Error| Failure::Said(error.to_string());
    let path = Path::from_url_path(url.path()).map_err(wrong)?;
    // Plain HTTP to this machine only, whatever a variable says.
    let options = |endpoint: Option<String>| {
        let plain = endpoint
            .and_then(|endpoint| endpoint.parse::<Url>().ok())
            .is_some_and(|endpoint| endpoint.scheme() == "http" && is_loopback(&endpoint));
        ClientOptions::new()
            .with_timeout(LONGEST)
            .with_connect_timeout(SILENT)
            .with_read_timeout(SILENT)
            .with_allow_http(plain)
    };
    let retry = RetryConfig {
        max_retries: REPEATS,
        retry_timeout: LONGEST,
        ..RetryConfig::default()
    };
    let store: Arc<dyn ObjectStore> = match store {
        Store::S3 => {
            let builder = AmazonS3Builder::from_env();
            let endpoint = builder.get_config_value(&AmazonS3ConfigKey::Endpoint);
            let builder = builder
                .with_client_options(options(endpoint))
                .with_retry(retry);
            Arc::new(builder.with_bucket_name(bucket).build()?)
        }
        Store::Gcs => {
            let builder = GoogleCloudStorageBuilder::from_env();
            let endpoint = builder.get_config_value(&GoogleConfigKey::BaseUrl);
            let builder = builder
                .with_client_options(options(endpoint))
                .with_retry(retry);
            Arc::new(builder.with_bucket_name(bucket).build()?)
        }
        Store::Azure => {
            let builder = MicrosoftAzureBuilder::from_env();
            let endpoint = builder.get_config_value(&AzureConfigKey::Endpoint);
            let builder = builder
                .with_client_options(options(endpoint))
                .with_retry(retry);
            Arc::new(builder.with_container_name(bucket).build()?)
        }
    };
    let found = store.get(&path).await?;
    if found.meta.size > LIMIT {
        return Err(Failure::TooLarge);
    }
    Ok(found.bytes().await?.to_vec())
}

async fn layer(
    reference: &str,
    user: Option<String>,
    password: Option<String>,
) -> Result<Vec<u8>, Failure> {
    let said = |text: &str| Failure::Said(text.to_owned());
    let image: Reference = reference
        .parse()
        .map_err(|_| said("this is no reference to an OCI registry"))?;
    let registry = format!("http://{}", image.registry());
    let local = registry.parse::<Url>().is_ok_and(|url| is_loopback(&url));
    let client = Client::try_from(ClientConfig {
        protocol: match local {
            true => ClientProtocol::Http,
            false => ClientProtocol::Https,
        },
        connect_timeout: Some(SILENT),
        read_timeout: Some(SILENT),
        user_agent: AGENT,
        platform_resolver: None,
        ..ClientConfig::default()
    })?;
    let auth = match (user, password) {
        (Some(user), password) => RegistryAuth::Basic(user, password.unwrap_or_default()),
        (None, Some(token)) => RegistryAuth::Bearer(token),
        (None, None) => RegistryAuth::Anonymous,
    };
    let (manifest, _) = client.pull_image_manifest(&image, &auth).await?;
    let of_type: Vec<&OciDescriptor> = manifest
        .layers
        .iter()
        .filter(|layer| layer.media_type == PAYLOAD_TYPE)
        .collect();
    let layer = match (of_type.as_slice(), manifest.layers.as_slice()) {
        ([layer], _) => *layer,
        ([], [layer]) => layer,
        _ => {
            return Err(said(
                "its manifest does not have one layer that is a policy bundle",
            ));
        }
    };
    if u64::try_from(layer.size).map_or(true, |size| size > LIMIT) {
        return Err(Failure::TooLarge);
    }
    let mut bytes = Bounded(Vec::new());
    match client.pull_blob(&image, layer, &mut bytes).await {
        Ok(()) => Ok(bytes.0),
        Err(_) if bytes.0.len() as u64 > LIMIT => Err(Failure::TooLarge),
        Err(error) => Err(error.into()),
    }
}

/// Takes no more bytes than a bundle may have, and one.
struct Bounded(Vec<u8>);

impl AsyncWrite for Bounded {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let room = usize::try_from(LIMIT + 1)
            .unwrap_or(usize::MAX)
            .saturating_sub(self.0.len());
        let fits = bytes.get(..room).unwrap_or(bytes);
        self.0.extend_from_slice(fits);
        Poll::Ready(match fits.len() == bytes.len() {
            true => Ok(bytes.len()),
            false => Err(io::ErrorKind::FileTooLarge.into()),
        })
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// The innermost reason: those around it say where in a library it happened.
fn root(error: &dyn Error) -> String {
    let mut error = error;
    while let Some(inner) = error.source() {
        error = inner;
    }
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

/// A text without what stands behind the question marks of its addresses.
fn without_queries(text: &str) -> String {
    let word = |word: &str| match word.split_once('?') {
        Some((address, _)) if address.contains("://") => address.to_owned(),
        _ => word.to_owned(),
    };
    text.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_behind_a_question_mark_is_not_shown() {
        assert_eq!(
            without_queries("GET https://x.example/a?sig=secret in 3s: really?"),
            "GET https://x.example/a in 3s: really?"
        );
    }
}
