//! How the reasons of a kind are listed: each once, with its class and a line of documentation.
//! Which reason holds is decided by the kind; its text is API and never changes.

/// Who acts on a reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Nobody: it is as it should be, or not asked for.
    Settled,
    /// Nobody: it comes by itself.
    Progress,
    /// Whoever wrote the object or runs the cluster.
    NeedsYou,
    /// Something is wrong that may heal by itself; it is tried again.
    Fault,
}

impl Class {
    /// For the tables of the documentation.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Settled => "none",
            Self::Progress => "none, in progress",
            Self::NeedsYou => "yes",
            Self::Fault => "none, retried",
        }
    }
}

/// Declares the reasons of a kind.
macro_rules! reasons {
    ($(#[$about:meta])* $vis:vis enum $name:ident { $($class:ident { $($variant:ident: $doc:literal,)+ })+ }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        $vis enum $name { $($(#[doc = $doc] $variant,)+)+ }

        impl $name {
            /// All of them.
            pub const ALL: &[Self] = &[$($(Self::$variant,)+)+];

            /// As in `reason:` of a condition.
            pub const fn as_str(self) -> &'static str {
                match self { $($(Self::$variant => stringify!($variant),)+)+ }
            }

            /// Who acts on it.
            pub const fn class(self) -> $crate::controller::status::reasons::Class {
                match self { $($(Self::$variant => $crate::controller::status::reasons::Class::$class,)+)+ }
            }

            /// What it means.
            pub const fn doc(self) -> &'static str {
                match self { $($(Self::$variant => $doc,)+)+ }
            }

            /// The reason of this name.
            pub fn parse(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|reason| reason.as_str() == text)
            }
        }

        impl From<$name> for &'static str {
            fn from(reason: $name) -> Self {
                reason.as_str()
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str(self.as_str())
            }
        }
    };
}
pub(crate) use reasons;
