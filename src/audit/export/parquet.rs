//! One Parquet table: a column for each field of a line, and its `id` before them.
//!
//! What is nested stands there as JSON, so that the same queries read the table and the lines.

use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{Type, TypePtr};
use serde_json::Value;

use super::Line;
use crate::audit::record::fields::{FIELDS, Form};

/// A row group has so many bytes of lines, or a line more: what is held in memory.
const GROUP: usize = 32 << 20;

/// A table that is being written.
pub struct Table<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    ids: Vec<ByteArray>,
    columns: Vec<Column>,
    held: usize,
}

impl<W: Write + Send> std::fmt::Debug for Table<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table")
            .field("rows", &self.ids.len())
            .finish_non_exhaustive()
    }
}

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    /// A text; of a hidden one, its JSON.
    Text,
    /// JSON.
    Json,
    /// A number.
    Number,
    /// A time, in microseconds.
    Time,
    /// Yes or no; never null.
    Flag,
}

/// The values of a column in the row group at hand.
#[derive(Debug)]
struct Column {
    name: &'static str,
    content: Content,
    /// 1 where there is a value, 0 for null.
    defined: Vec<i16>,
    texts: Vec<ByteArray>,
    numbers: Vec<i64>,
    flags: Vec<bool>,
}

impl Content {
    const fn of(form: Form) -> Self {
        match form {
            Form::Version | Form::Sequence | Form::Number => Self::Number,
            Form::Instant => Self::Time,
            Form::Truncated => Self::Flag,
            Form::Kind
            | Form::Text
            | Form::Spoken
            | Form::Effect
            | Form::MaybeHash
            | Form::ErrorClass
            | Form::Hash => Self::Text,
            Form::Hidden
            | Form::Arguments
            | Form::Requests
            | Form::Reasons
            | Form::Obligations
            | Form::Redactions
            | Form::Trace
            | Form::Detail => Self::Json,
        }
    }

    fn column(self, name: &str) -> Result<TypePtr, ParquetError> {
        let (physical, logical) = match self {
            Self::Text | Self::Json => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            Self::Number => (Physical::INT64, None),
            Self::Time => {
                let logical = LogicalType::timestamp(true, TimeUnit::MICROS);
                (Physical::INT64, Some(logical))
            }
            Self::Flag => (Physical::BOOLEAN, None),
        };
        let repetition = match self {
            Self::Flag => Repetition::REQUIRED,
            _ => Repetition::OPTIONAL,
        };
        let column = Type::primitive_type_builder(name, physical)
            .with_repetition(repetition)
            .with_logical_type(logical)
            .build()?;
        Ok(Arc::new(column))
    }
}

impl Column {
    fn push(&mut self, value: Option<&Value>) {
        let value = value.unwrap_or(&Value::Null);
        let is_defined = match (self.content, value) {
            (Content::Flag, value) => {
                self.flags.push(value == &Value::Bool(true));
                return;
            }
            (_, Value::Null) => false,
            (Content::Text, Value::String(text)) => {
                self.texts.push(text.as_str().into());
                true
            }
            (Content::Text | Content::Json, value) => {
                self.texts.push(value.to_string().into_bytes().into());
                true
            }
            (Content::Number, value) => self.number(value.as_i64()),
            (Content::Time, value) => {
                let time = value.as_str().and_then(|text| text.parse().ok());
                self.number(time.map(jiff::Timestamp::as_microsecond))
            }
        };
        self.defined.push(i16::from(is_defined));
    }

    fn number(&mut self, number: Option<i64>) -> bool {
        self.numbers.extend(number);
        number.is_some()
    }

    fn write(&mut self, writer: &mut ColumnWriter<'_>) -> Result<(), ParquetError> {
        let defined = Some(self.defined.as_slice());
        match writer {
            ColumnWriter::ByteArrayColumnWriter(writer) => {
                writer.write_batch(&self.texts, defined, None)?;
            }
            ColumnWriter::Int64ColumnWriter(writer) => {
                writer.write_batch(&self.numbers, defined, None)?;
            }
            ColumnWriter::BoolColumnWriter(writer) => {
                writer.write_batch(&self.flags, None, None)?;
            }
            _ => return Err(misplaced(self.name)),
        }
        self.defined.clear();
        self.texts.clear();
        self.numbers.clear();
        self.flags.clear();
        Ok(())
    }
}

impl<W: Write + Send> Table<W> {
    /// Begins a table.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn new(out: W) -> io::Result<Self> {
        let columns = FIELDS.iter().map(|field| Column {
            name: field.name,
            content: Content::of(field.form),
            defined: Vec::new(),
            texts: Vec::new(),
            numbers: Vec::new(),
            flags: Vec::new(),
        });
        Ok(Self {
            writer: writer(out).map_err(failed)?,
            ids: Vec::new(),
            columns: columns.collect(),
            held: 0,
        })
    }

    /// Adds a line.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn line(&mut self, line: &Line<'_>) -> io::Result<()> {
        self.ids.push(line.id().into());
        for column in &mut self.columns {
            column.push(line.get(column.name));
        }
        self.held += line.length();
        if self.held >= GROUP {
            self.group().map_err(failed)?;
        }
        Ok(())
    }

    /// Ends the table.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(mut self) -> io::Result<W> {
        if !self.ids.is_empty() {
            self.group().map_err(failed)?;
        }
        self.writer.into_inner().map_err(failed)
    }

    /// Writes what is held as one row group.
    fn group(&mut self) -> Result<(), ParquetError> {
        let mut group = self.writer.next_row_group()?;
        let mut column = group.next_column()?.ok_or_else(|| misplaced("id"))?;
        match column.untyped() {
            ColumnWriter::ByteArrayColumnWriter(writer) => {
                writer.write_batch(&self.ids, None, None)?;
            }
            _ => return Err(misplaced("id")),
        }
        column.close()?;
        for values in &mut self.columns {
            let mut column = group.next_column()?.ok_or_else(|| misplaced(values.name))?;
            values.write(column.untyped())?;
            column.close()?;
        }
        group.close()?;
        self.ids.clear();
        self.held = 0;
        Ok(())
    }
}

fn writer<W: Write + Send>(out: W) -> Result<SerializedFileWriter<W>, ParquetError> {
    let id = Type::primitive_type_builder("id", Physical::BYTE_ARRAY)
        .with_repetition(Repetition::REQUIRED)
        .with_logical_type(Some(LogicalType::String))
        .build()?;
    let mut columns: Vec<TypePtr> = vec![Arc::new(id)];
    for field in &FIELDS {
        columns.push(Content::of(field.form).column(field.name)?);
    }
    let schema = Type::group_type_builder("record")
        .with_fields(columns)
        .build()?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_created_by(concat!("copilot-bridge ", env!("CARGO_PKG_VERSION")).to_owned())
        .build();
    SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties))
}

fn misplaced(name: &str) -> ParquetError {
    ParquetError::General(format!(
        "the column `{name}` has another type than its field"
    ))
}

/// What failed, as the system said it.
fn failed(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(error) => match error.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(error) => io::Error::other(error),
        },
        other => io::Error::other(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use serde_json::json;

    #[test]
    fn a_row_group_has_no_more_than_is_held() {
        let text = "x".repeat(8 << 10);
        let mut table = Table::new(Vec::new()).unwrap();
        let mut bytes = 0;
        let mut lines: i64 = 0;
        while bytes < GROUP * 2 + GROUP / 2 {
            lines += 1;
            let value = json!({"seq": lines, "tool": text});
            let line = value.to_string();
            bytes += line.len();
            table.line(&Line::new(line.as_bytes(), &value)).unwrap();
            assert!(table.held < GROUP);
        }
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&table.finish().unwrap()).unwrap();
        let reader = SerializedFileReader::new(file).unwrap();
        let groups = reader.metadata().row_groups();
        assert_eq!(groups.len(), 3);
        assert_eq!(
            groups.iter().map(|group| group.num_rows()).sum::<i64>(),
            lines
        );
    }
}
