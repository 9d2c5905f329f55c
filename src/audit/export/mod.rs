//! Handing the record on, line by line and in constant memory: one file for each form.
//!
//! `audit/ocsf.md` says what becomes of each field.

pub mod cef;
mod line;
pub mod ocsf;
#[cfg(feature = "serve")]
pub mod otel;
#[cfg(feature = "serve")]
pub mod parquet;

use std::io::{self, Write};

use data_encoding::HEXLOWER;
use serde_json::Value;
use sha2::{Digest, Sha256};

pub use line::{Line, Severity};

/// The id of a line, for systems that may get it twice: the SHA-256 of its bytes without the line
/// feed, in lower-case hexadecimal. The next line of the record has the same in `prev`.
#[must_use]
pub fn id(line: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(line))
}

/// A form that the record can be handed on in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Events of the Open Cybersecurity Schema Framework, one JSON object a line.
    Ocsf,
    /// `ArcSight`'s Common Event Format, one event a line.
    Cef,
    /// OpenTelemetry's logs, one request of OTLP/JSON a line.
    #[cfg(feature = "serve")]
    Otel,
    /// One table for lakes and warehouses.
    #[cfg(feature = "serve")]
    Parquet,
}

impl Format {
    /// Every form.
    pub const ALL: &'static [Self] = &[
        Self::Ocsf,
        Self::Cef,
        #[cfg(feature = "serve")]
        Self::Otel,
        #[cfg(feature = "serve")]
        Self::Parquet,
    ];

    /// The form's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ocsf => "ocsf",
            Self::Cef => "cef",
            #[cfg(feature = "serve")]
            Self::Otel => "otel",
            #[cfg(feature = "serve")]
            Self::Parquet => "parquet",
        }
    }

    /// What it is, in a few words.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            Self::Ocsf => "OCSF 1.8.0, one JSON object a line",
            Self::Cef => "CEF:0, one event a line",
            #[cfg(feature = "serve")]
            Self::Otel => "OTLP/JSON, one request a line",
            #[cfg(feature = "serve")]
            Self::Parquet => "One Parquet table, a column for each field",
        }
    }

    /// Whether it is no text.
    #[must_use]
    pub const fn is_binary(self) -> bool {
        match self {
            Self::Ocsf | Self::Cef => false,
            #[cfg(feature = "serve")]
            Self::Otel => false,
            #[cfg(feature = "serve")]
            Self::Parquet => true,
        }
    }
}

/// Takes lines of the record, and writes them in one of the forms.
#[derive(Debug)]
pub struct Exporter<W: Write + Send>(Form<W>);

#[derive(Debug)]
enum Form<W: Write + Send> {
    Ocsf(W),
    Cef(W),
    #[cfg(feature = "serve")]
    Otel(W, otel::Options),
    #[cfg(feature = "serve")]
    Parquet(Box<parquet::Table<W>>),
}

impl<W: Write + Send> Exporter<W> {
    /// Begins.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn new(format: Format, out: W) -> io::Result<Self> {
        Ok(Self(match format {
            Format::Ocsf => Form::Ocsf(out),
            Format::Cef => Form::Cef(out),
            #[cfg(feature = "serve")]
            Format::Otel => Form::Otel(
                out,
                otel::Options {
                    observed: jiff::Timestamp::now(),
                    original: false,
                },
            ),
            #[cfg(feature = "serve")]
            Format::Parquet => Form::Parquet(Box::new(parquet::Table::new(out)?)),
        }))
    }

    /// Writes one line: its bytes without the line feed, and the JSON object that they are.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn line(&mut self, bytes: &[u8], value: &Value) -> io::Result<()> {
        let line = Line::new(bytes, value);
        match &mut self.0 {
            Form::Ocsf(out) => {
                serde_json::to_writer(&mut *out, &ocsf::event(&line))?;
                out.write_all(b"\n")
            }
            Form::Cef(out) => {
                out.write_all(cef::event(&line).as_bytes())?;
                out.write_all(b"\n")
            }
            #[cfg(feature = "serve")]
            Form::Otel(out, options) => {
                let line = otel::Line {
                    id: line.id(),
                    bytes,
                    length: bytes.len() as u64,
                };
                out.write_all(&otel::json(&otel::request([line], *options))?)?;
                out.write_all(b"\n")
            }
            #[cfg(feature = "serve")]
            Form::Parquet(table) => table.line(&line),
        }
    }

    /// Writes what is left, and gives back what was written to.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(self) -> io::Result<W> {
        let mut out = match self.0 {
            Form::Ocsf(out) | Form::Cef(out) => out,
            #[cfg(feature = "serve")]
            Form::Otel(out, _) => out,
            #[cfg(feature = "serve")]
            Form::Parquet(table) => table.finish()?,
        };
        out.flush()?;
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_line_is_what_the_next_is_chained_to() {
        assert_eq!(
            id(b"abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
