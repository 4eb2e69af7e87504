//! [`JsonObject`]: a derived type, read from a JSON object and from nothing else.
//!
//! A derived reader also takes an array and fills the fields in order. On the wire that is a malformed message.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

/// What an object held.
#[derive(Debug)]
pub(super) struct JsonObject<T>(pub(super) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for JsonObject<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Object<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Object<T> {
            type Value = T;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map))
            }
        }

        from.deserialize_map(Object(PhantomData)).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(serde::Deserialize)]
    struct One {
        number: u8,
    }

    #[test]
    fn an_array_is_not_taken_for_an_object() {
        assert_eq!(serde_json::from_str::<JsonObject<One>>(r#"{"number":7}"#).unwrap().0.number, 7);
        for text in ["[7]", "7", "null", r#""number""#] {
            assert!(serde_json::from_str::<JsonObject<One>>(text).is_err(), "{text}");
        }
        assert!(serde_json::from_str::<One>("[7]").is_ok(), "the derived reader alone would take it");
    }
}
