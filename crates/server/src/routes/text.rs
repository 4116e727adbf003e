//! Kinds of text in the API's description, each with the pattern and the length that the server checks.

use std::borrow::Cow;

use backstitch_modules::lifecycles::{MAX_KEY, key_pattern};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

/// No store keeps a NUL character.
const NO_NUL: &str = r"^[^\x00]*$";
const WITHOUT_NUL_OR_BLANK: &str = r"^[^\x00]*[^\s\x00][^\x00]*$";
const EVENT_TYPE: &str = r"^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$";
const EVENT_PATTERN: &str = r"^(\*|[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*(\.\*)?)$";
/// `whsec_` and the base64 of 24 to 64 bytes.
const SIGNING_SECRET: &str = r"^whsec_(([A-Za-z0-9+/]{4}){8,20}([A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?|([A-Za-z0-9+/]{4}){21}([A-Za-z0-9+/][AQgw]==)?)$";
/// A host by name or address, a port, a path and a query; no user, no fragment.
const HTTP_URL: &str = r"^https?://([A-Za-z]([A-Za-z0-9_-]{0,61}[A-Za-z0-9])?(\.[A-Za-z]([A-Za-z0-9_-]{0,61}[A-Za-z0-9])?)*|((25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])\.){3}(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])|\[([0-9A-Fa-f]{1,4}:){7}[0-9A-Fa-f]{1,4}\]|\[::1\])(:[1-9][0-9]{0,3}|:[1-5][0-9]{4}|:6[0-4][0-9]{3})?(/[A-Za-z0-9._~!$&'()*+,;=:@/-]*)?(\?[A-Za-z0-9._~!$&'()*+,;=:@/?-]*)?$";
const HEADER_NAME: &str = r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$";
const HEADER_VALUE: &str = r"^[^\x00-\x08\x0a-\x1f\x7f]*$";

/// A kind of text: what it says, its pattern, its lengths and an example.
macro_rules! texts {
    ($($(#[doc = $about:literal])* $kind:ident $pattern:expr, $least:literal, $most:expr, $example:literal;)*) => {$(
        $(#[doc = $about])*
        pub(super) struct $kind;

        impl PartialSchema for $kind {
            fn schema() -> RefOr<Schema> {
                let text = text($pattern, $least, $most).description(Some(concat!($($about),*).trim()));
                text.examples([$example]).into()
            }
        }

        impl ToSchema for $kind {
            fn name() -> Cow<'static, str> {
                stringify!($kind).into()
            }
        }
    )*};
}

texts! {
    /// Text that something is found by: up to 512 bytes, without a NUL character.
    Label NO_NUL, 1, 512, "order-17";
    /// Text that says something: up to 512 bytes, not only blanks, without a NUL character.
    FilledLabel WITHOUT_NUL_OR_BLANK, 1, 512, "o-1";
    /// Which one of a machine: anything that can be seen, up to 200 bytes, with blanks only between its characters.
    LifecycleKey key_pattern(), 1, MAX_KEY, "p-17";
    /// What kind of thing happened: words of letters, digits, `-` and `_` with dots between.
    EventType EVENT_TYPE, 1, 200, "order.created";
    /// A type of events, `order.*` for everything below `order`, or `*` for all.
    EventPattern EVENT_PATTERN, 1, 200, "order.*";
    /// A signing secret: `whsec_` and base64 of 24 to 64 bytes.
    SigningSecret SIGNING_SECRET, 38, 94, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    /// `http` or `https`, with a host, without user, password or fragment.
    HttpUrl HTTP_URL, 8, 8192, "http://127.0.0.1:7431/hooks";
}

fn text(pattern: impl Into<String>, least: usize, most: usize) -> ObjectBuilder {
    let text = ObjectBuilder::new().schema_type(Type::String).pattern(Some(pattern));
    text.min_length((least > 0).then_some(least)).max_length(Some(most))
}

/// Headers by name.
pub(super) struct HeaderMap;

impl PartialSchema for HeaderMap {
    fn schema() -> RefOr<Schema> {
        map("Headers by name, 8 KiB together.", text(HEADER_NAME, 1, 256), text(HEADER_VALUE, 0, 8192))
    }
}

impl ToSchema for HeaderMap {
    fn name() -> Cow<'static, str> {
        "HeaderMap".into()
    }
}

/// What sagas are searched by.
pub(super) struct Attributes;

impl PartialSchema for Attributes {
    fn schema() -> RefOr<Schema> {
        map("What a saga can be searched by, by name.", text(NO_NUL, 1, 512), text(NO_NUL, 0, 512))
    }
}

impl ToSchema for Attributes {
    fn name() -> Cow<'static, str> {
        "Attributes".into()
    }
}

fn map(about: &str, names: ObjectBuilder, values: ObjectBuilder) -> RefOr<Schema> {
    let names: Schema = names.into();
    ObjectBuilder::new()
        .schema_type(Type::Object)
        .property_names(Some(names))
        .additional_properties(Some(values))
        .max_properties(Some(32))
        .description(Some(about))
        .into()
}
