//! Words of requests.

/// Defines a choice of words, each a variant. Words are read in any case; a misspelt one gets a hint.
#[macro_export]
macro_rules! word_type {
    (
        $(#[doc = $about:literal])*
        $(#[derive($($derive:path),+)])?
        $vis:vis enum $kind:ident { $($(#[$attribute:ident])? $variant:ident = $word:literal,)+ }
    ) => {
        $(#[doc = $about])*
        #[derive(Clone, Debug, PartialEq, Eq $($(, $derive)+)?)]
        $vis enum $kind {
            $(
                #[doc = concat!("`", $word, "`")]
                $(#[$attribute])?
                $variant,
            )+
        }

        impl $crate::validate::Input for $kind {
            fn read(node: &$crate::validate::Node<'_>) -> Option<Self> {
                node.one_of(&[$(($word, Self::$variant)),+])
            }

            fn schema() -> $crate::validate::macros::SchemaOrRef {
                $crate::validate::schema::of::<Self>().into()
            }

            fn collect(components: &mut $crate::validate::schema::Components) {
                $crate::validate::schema::collect::<Self>(components);
            }
        }

        impl $crate::validate::macros::PartialSchema for $kind {
            fn schema() -> $crate::validate::macros::SchemaOrRef {
                let about = $crate::validate::macros::text_of(&[$($about),*]);
                $crate::validate::schema::words([$($word),+]).description(Some(about)).into()
            }
        }

        impl $crate::validate::macros::ToSchema for $kind {}
    };
}
