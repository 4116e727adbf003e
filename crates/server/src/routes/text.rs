//! Kinds of text in the API's description, each with the pattern and the length that the server checks.

use std::borrow::Cow;

use backstitch::kernel::mistakes::{MAX_CALL_LEN, MAX_ID_LEN};
use backstitch::kernel::name_pattern::{error_kind_pattern, id_pattern, state_pattern};
use backstitch_api::validate::schema::{map_of_texts, text};
use backstitch_modules::http_call::{MAX_HEADERS, header_name_pattern};
use backstitch_modules::http_url::HTTP_URL_PATTERN;
use backstitch_modules::lifecycles::subject_pattern;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::Schema;
use utoipa::{PartialSchema, ToSchema};

/// As `MachineInPath` takes it, but for the two that are no last part of an address.
const MACHINE_NAME: &str = r"^(?!\.{1,2}$)[A-Za-z0-9._-]+$";
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
    /// `http` or `https`, with a host, without user, password or fragment.
    CallUrl HTTP_URL_PATTERN, 8, MAX_CALL_LEN, "http://127.0.0.1:7431/payment/charge";
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

/// Headers of a declared call.
pub(super) struct CallHeaders;

impl PartialSchema for CallHeaders {
    fn schema() -> RefOr<Schema> {
        let names = text(header_name_pattern(), 1, MAX_CALL_LEN);
        let about = "More headers by name, none of which is given twice in another case. Those of the call itself cannot be set.";
        map_of_texts(about, names, text(HEADER_VALUE, 0, MAX_CALL_LEN), MAX_HEADERS)
    }
}

impl ToSchema for CallHeaders {
    fn name() -> Cow<'static, str> {
        "CallHeaders".into()
    }
}
