//! Kinds of text in the API's description, each with the pattern and the length that the server checks.

use std::borrow::Cow;

use backstitch::kernel::mistakes::{MAX_CALL_LEN, MAX_ID_LEN};
use backstitch::kernel::name_pattern::{error_kind_pattern, id_pattern, state_pattern};
use backstitch_modules::http_call::{MAX_HEADERS, header_name_pattern};
use backstitch_modules::lifecycles::{MAX_KEY, key_pattern, subject_pattern};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

/// No store keeps a NUL character.
const NO_NUL: &str = r"^[^\x00]*$";
const WITHOUT_NUL_OR_BLANK: &str = r"^[^\x00]*[^\s\x00][^\x00]*$";
const EVENT_TYPE: &str = r"^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$";
/// As `MachineInPath` takes it, but for the two that are no last part of an address.
const MACHINE_NAME: &str = r"^(?!\.{1,2}$)[A-Za-z0-9._-]+$";
const EVENT_PATTERN: &str = r"^(\*|[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*(\.\*)?)$";
/// `whsec_` and the base64 of 24 to 64 bytes.
const SIGNING_SECRET: &str = r"^whsec_(([A-Za-z0-9+/]{4}){8,20}([A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?|([A-Za-z0-9+/]{4}){21}([A-Za-z0-9+/][AQgw]==)?)$";
/// A host by name or address, a port, a path and a query; no user, no fragment, no blank and no control character.
///
/// A host whose last part is a number would be an address. What a URL's parser mends beyond that, such as `http:\\host` or an
/// address in octal, is not in it; neither are letters beyond ASCII in the name of a host.
const HTTP_URL: &str = concat!(
    r"^[Hh][Tt][Tt][Pp][Ss]?://(",
    r"(?![^:/?]{254})([A-Za-z0-9_-]{1,63}\.)*(?!([0-9]+|0[Xx][0-9A-Fa-f]*)\.?([:/?]|$))[A-Za-z0-9_-]{1,63}\.?",
    r"|((25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])\.){3}(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])",
    r"|\[(([0-9A-Fa-f]{1,4}:){7}[0-9A-Fa-f]{1,4}|([0-9A-Fa-f]{1,4}:){1,7}:|([0-9A-Fa-f]{1,4}:){1,6}:[0-9A-Fa-f]{1,4}",
    r"|([0-9A-Fa-f]{1,4}:){1,5}(:[0-9A-Fa-f]{1,4}){1,2}|([0-9A-Fa-f]{1,4}:){1,4}(:[0-9A-Fa-f]{1,4}){1,3}",
    r"|([0-9A-Fa-f]{1,4}:){1,3}(:[0-9A-Fa-f]{1,4}){1,4}|([0-9A-Fa-f]{1,4}:){1,2}(:[0-9A-Fa-f]{1,4}){1,5}",
    r"|[0-9A-Fa-f]{1,4}:(:[0-9A-Fa-f]{1,4}){1,6}|:((:[0-9A-Fa-f]{1,4}){1,7}|:))\]",
    r")(:([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]))?",
    r"([/?][^\x00-\x20#\x7f-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]*)?$",
);
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
    /// `http` or `https`, with a host, without user, password or fragment.
    CallUrl HTTP_URL, 8, MAX_CALL_LEN, "http://127.0.0.1:7431/payment/charge";
    /// A name or an id: letters, digits, `-`, `_` and `.`, up to 128 bytes.
    Name id_pattern(), 1, MAX_ID_LEN, "inventory";
    /// The name of a machine: letters and digits of ASCII, `-`, `_` and `.`.
    MachineName MACHINE_NAME, 1, MAX_ID_LEN, "parcel";
    /// What the topics of a machine begin with: words of letters, digits, `-` and `_` with dots between, up to 128 bytes. Neither
    /// `backstitch` nor `sites.provisioning` nor anything below them.
    MachineSubject subject_pattern(), 1, MAX_ID_LEN, "parcels";
    /// The name of a state: letters, digits, `-` and `_`, up to 128 bytes.
    MachineState state_pattern(), 1, MAX_ID_LEN, "packed";
    /// A kind of errors: letters, digits, `-`, `_` and `.`, up to 128 bytes, but not `ok`.
    MachineErrorKind error_kind_pattern(), 1, MAX_ID_LEN, "nobody_home";
}

fn text(pattern: impl Into<String>, least: usize, most: usize) -> ObjectBuilder {
    let text = ObjectBuilder::new().schema_type(Type::String).pattern(Some(pattern));
    text.min_length((least > 0).then_some(least)).max_length(Some(most))
}

/// Headers by name.
pub(super) struct HeaderMap;

impl PartialSchema for HeaderMap {
    fn schema() -> RefOr<Schema> {
        let (names, values) = (text(HEADER_NAME, 1, 256), text(HEADER_VALUE, 0, 8192));
        map("Headers by name, 8 KiB together.", names, values, 32)
    }
}

impl ToSchema for HeaderMap {
    fn name() -> Cow<'static, str> {
        "HeaderMap".into()
    }
}

/// Headers of a declared call.
pub(super) struct CallHeaders;

impl PartialSchema for CallHeaders {
    fn schema() -> RefOr<Schema> {
        let names = text(header_name_pattern(), 1, MAX_CALL_LEN);
        let about = "More headers by name, none of which is given twice in another case. Those of the call itself cannot be set.";
        map(about, names, text(HEADER_VALUE, 0, MAX_CALL_LEN), MAX_HEADERS)
    }
}

impl ToSchema for CallHeaders {
    fn name() -> Cow<'static, str> {
        "CallHeaders".into()
    }
}

/// What sagas are searched by.
pub(super) struct Attributes;

impl PartialSchema for Attributes {
    fn schema() -> RefOr<Schema> {
        map("What a saga can be searched by, by name.", text(NO_NUL, 1, 512), text(NO_NUL, 0, 512), 32)
    }
}

impl ToSchema for Attributes {
    fn name() -> Cow<'static, str> {
        "Attributes".into()
    }
}

fn map(about: &str, names: ObjectBuilder, values: ObjectBuilder, most: usize) -> RefOr<Schema> {
    let names: Schema = names.into();
    ObjectBuilder::new()
        .schema_type(Type::Object)
        .property_names(Some(names))
        .additional_properties(Some(values))
        .max_properties(Some(most))
        .description(Some(about))
        .into()
}
