//! Lines of the record in the forms that others read.

#[cfg(feature = "serve")]
pub mod otel;

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

/// The id of a line: the SHA-256 of its bytes without the line feed, in lower-case hexadecimal. The
/// next line names it as `prev`.
#[must_use]
pub fn id(line: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(line))
}
