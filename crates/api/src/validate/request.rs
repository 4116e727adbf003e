//! Requests as structs: the one description from which reader and schema follow.

/// Defines a request: its fields with what they mean, and a type for each that says what is allowed.
///
/// Implements [`Input`](crate::validate::Input) and `utoipa::ToSchema`. Unknown fields are errors, unless a last field
/// `..NAME` keeps them verbatim. A field named `r#type` is `type` in JSON.
///
/// ```
/// use backstitch_api::request;
/// use backstitch_api::validate::{Bounded, Note, read};
///
/// request! {
///     /// Work to be repeated.
///     pub struct Repeat as "Repeat" example { "times": 3 } {
///         /// How often.
///         pub times: Bounded<u32, 1, 10>,
///         /// Why.
///         pub note: Option<Note>,
///     }
/// }
///
/// let Repeat { times, note } = read(r#"{ "times": 3 }"#, "body").unwrap();
/// assert!(times.0 == 3 && note.is_none());
/// let errors = read::<Repeat>(r#"{ "times": 11, "note": 7, "tims": 1 }"#, "body").unwrap_err();
/// assert_eq!(errors.0.len(), 3);
/// ```
#[macro_export]
macro_rules! request {
    (
        $(#[doc = $about:literal])*
        $(@derive($($derive:path),+))?
        $vis:vis struct $name:ident as $schema:literal $(example $example:tt)? {
            $(
                $(#[doc = $field_about:literal])*
                $field_vis:vis $field:ident: $type:ty,
            )*
            $(.. $rest_vis:vis $rest:ident,)?
        }
    ) => {
        $(#[doc = $about])*
        #[derive(Clone, Debug $($(, $derive)+)?)]
        $vis struct $name {
            $(
                $(#[doc = $field_about])*
                $field_vis $field: $type,
            )*
            $(
                /// All other fields, verbatim.
                $rest_vis $rest: ::std::collections::BTreeMap<String, $crate::validate::macros::Payload>,
            )?
        }

        impl $name {
            /// The names of its fields.
            $vis const FIELDS: &[&str] = &[$($crate::validate::macros::field_name(stringify!($field))),*];

            /// Reads the fields. Those of other names are the caller's.
            $vis fn read_fields(object: &$crate::validate::Object<'_>) -> Option<Self> {
                $(let $field = object.field::<$type>($crate::validate::macros::field_name(stringify!($field)));)*
                Some(Self { $($field: $field?,)* $($rest: object.rest(Self::FIELDS),)? })
            }
        }

        impl $crate::validate::Input for $name {
            fn read(node: &$crate::validate::Node<'_>) -> Option<Self> {
                let fields = $crate::request!(@known Self::FIELDS $(, $rest)?);
                Self::read_fields(&$crate::validate::macros::object(node, fields)?)
            }

            fn schema() -> $crate::validate::macros::SchemaOrRef {
                $crate::validate::schema::of::<Self>().into()
            }

            fn collect(components: &mut $crate::validate::schema::Components) {
                $crate::validate::schema::collect::<Self>(components);
                $(<$type as $crate::validate::Input>::collect(components);)*
            }
        }

        impl $crate::validate::macros::PartialSchema for $name {
            fn schema() -> $crate::validate::macros::SchemaOrRef {
                let fields = $crate::request!(@known Self::FIELDS $(, $rest)?);
                let schema = $crate::validate::macros::RequestSchema::new(&[$($about),*], fields.is_some());
                $(let schema = schema.field::<$type>(
                    $crate::validate::macros::field_name(stringify!($field)),
                    &[$($field_about),*],
                );)*
                $(let schema = schema.example($crate::validate::macros::json!($example));)?
                schema.build()
            }
        }

        impl $crate::validate::macros::ToSchema for $name {
            fn name() -> ::std::borrow::Cow<'static, str> {
                $schema.into()
            }

            fn schemas(components: &mut $crate::validate::schema::Components) {
                $(<$type as $crate::validate::Input>::collect(components);)*
            }
        }
    };
    (@known $fields:expr) => { Some($fields) };
    (@known $fields:expr, $rest:ident) => { None::<&[&str]> };
}
