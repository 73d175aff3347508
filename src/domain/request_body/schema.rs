//! Parts of schemas that utoipa cannot derive from Rust types.

use serde_json::Value;
use utoipa::openapi::Object;
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, SchemaFormat, SchemaType, Type};

/// Returns the schema of a text that is one of `names`, or `null` if that is allowed.
pub fn one_of(names: impl Iterator<Item = impl Into<Value>>, or_null: bool) -> Object {
    let names = names.map(Into::into);
    let values = names.chain(or_null.then_some(Value::Null));
    ObjectBuilder::new().schema_type(text(or_null)).enum_values(Some(values)).build()
}

/// Returns the schema of a timestamp, or `null` if that is allowed.
pub fn instant(or_null: bool) -> Object {
    let format = SchemaFormat::KnownFormat(KnownFormat::DateTime);
    ObjectBuilder::new().schema_type(text(or_null)).format(Some(format)).build()
}

fn text(or_null: bool) -> SchemaType {
    if or_null {
        SchemaType::from_iter([Type::String, Type::Null])
    } else {
        SchemaType::from(Type::String)
    }
}
