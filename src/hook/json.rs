//! JSON as a gate reads it: one document, no duplicate keys, no NUL, nothing after the end.

use std::cell::Cell;
use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// So many values and no more: a number of two bytes takes seventy in memory, and a process that
/// runs out of it dies without an answer.
const VALUES: usize = 500_000;

/// Parses exactly one document.
///
/// # Errors
/// In words, if the bytes are no UTF-8, no JSON, hold a duplicate key or a NUL at any level, are
/// nested more deeply than serde_json allows (128), are more than 500,000 values, or are followed by
/// anything but blanks.
pub(super) fn parse(bytes: &[u8]) -> Result<Value, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())?;
    if text.trim().is_empty() {
        return Err("it is empty".to_owned());
    }
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let left = Cell::new(VALUES);
    let value = Strict { left: &left }
        .deserialize(&mut deserializer)
        .map_err(|error| error.to_string())?;
    deserializer.end().map_err(|error| error.to_string())?;
    Ok(value)
}

#[derive(Clone, Copy)]
struct Strict<'a> {
    /// How many more values there may be.
    left: &'a Cell<usize>,
}

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        let left = self.left.get().checked_sub(1).ok_or_else(|| {
            let text = format!("it holds more than {VALUES} values");
            <D::Error as de::Error>::custom(text)
        })?;
        self.left.set(left);
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value)
            .map(Value::Number)
            .ok_or_else(|| E::custom("a number is out of range"))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Value, E> {
        without_nul(value).map(|()| Value::String(value.to_owned()))
    }

    fn visit_string<E: de::Error>(self, value: String) -> Result<Value, E> {
        without_nul(&value).map(|()| Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut all = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            all.push(item);
        }
        Ok(Value::Array(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut all = Map::new();
        while let Some(key) = fields.next_key::<String>()? {
            without_nul(&key)?;
            if all.contains_key(&key) {
                let shown: String = key.chars().take(40).collect();
                return Err(de::Error::custom(format!("the key `{shown}` stands twice")));
            }
            let value = fields.next_value_seed(self)?;
            all.insert(key, value);
        }
        Ok(Value::Object(all))
    }
}

fn without_nul<E: de::Error>(text: &str) -> Result<(), E> {
    if text.contains('\0') {
        Err(E::custom("it holds a NUL byte"))
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_what_serde_json_makes_of_it() {
        let text = r#"{"a":[1,-2,3.5,true,null,"x\n"],"b":{"c":{}}}"#;
        assert_eq!(
            parse(text.as_bytes()).unwrap(),
            serde_json::from_str::<Value>(text).unwrap()
        );
    }

    #[test]
    fn what_is_not_one_clean_document_is_refused() {
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        let many = format!("[{}1]", "1,".repeat(VALUES));
        for bytes in [
            &b""[..],
            b" \n",
            b"{",
            b"{}x",
            b"{}{}",
            b"\xef\xbb\xbf{}",
            b"{\"a\":1,\"a\":1}",
            b"{\"x\":{\"a\":1,\"a\":1}}",
            b"[{\"a\":1,\"a\":1}]",
            b"\"\\u0000\"",
            b"{\"\\u0000\":1}",
            b"\"\\ud800\"",
            b"[NaN]",
            b"1e999",
            b"{a:1}",
            b"[1,]",
            b"\"\xff\"",
            deep.as_bytes(),
            many.as_bytes(),
        ] {
            assert!(parse(bytes).is_err(), "{}", String::from_utf8_lossy(bytes));
        }
    }
}
