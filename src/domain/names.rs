//! Enumerations whose values have a name in stores, answers and metrics.

/// Declares such an enumeration and its names in one place.
macro_rules! names {
    ($(#[$doc:meta])* $type:ident { $($(#[$item_doc:meta])* $item:ident = $name:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $type {
            $($(#[$item_doc])* $item,)*
        }

        impl $type {
            /// All values.
            pub const ALL: &'static [Self] = &[$(Self::$item,)*];

            /// Returns the name in stores and answers.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$item => $name,)* }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl std::str::FromStr for $type {
            type Err = $crate::domain::names::UnknownName;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::ALL.iter().copied().find(|item| item.as_str() == text).ok_or($crate::domain::names::UnknownName)
            }
        }
    };
}
pub(super) use names;

/// The error for a text that is not the name of a value.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("unknown name")]
pub struct UnknownName;
