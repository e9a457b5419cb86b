//! How the reasons of a kind are listed: each once, with its class and a line of documentation.
//! Which reason holds is decided by the kind; its text is API and never changes.

use super::transitions::Meaning;

/// Who acts on a reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Nobody: it is as it should be, or not asked for.
    Settled,
    /// Nobody: it comes by itself.
    Progress,
    /// Nobody: what runs is being replaced, as was asked for. To give up what held for it is never bad news.
    Replacement,
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
            Self::Progress | Self::Replacement => "none, in progress",
            Self::NeedsYou => "yes",
            Self::Fault => "none, retried",
        }
    }
}

/// The reasons that every kind has, since what they say is decided once for all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SharedReason {
    Accepted,
    RollingOut,
    ReplicasUnavailable,
    Progressing,
    InvalidSpec,
    RulesBroken,
    AdmissionDisabled,
    AccountNotOurs,
    ChildConflict,
    ChildRefused,
    FinalizerRefused,
    RolloutStuck,
    DeadlineExceeded,
    RolloutSlow,
    ApplyFailed,
    ReferenceMissing,
    ReferenceUnreadable,
    Resumed,
}

/// The reasons of a kind.
pub(crate) trait KindReason:
    'static + Copy + PartialEq + From<SharedReason> + Into<&'static str>
{
    /// The reason of this name.
    fn named(text: &str) -> Option<Self>;

    /// Who acts on it.
    fn class(self) -> Class;

    /// What the reason of this name says of a condition that does not hold.
    fn meaning(text: &str) -> Meaning {
        match Self::named(text).map(Self::class) {
            Some(Class::Replacement) => Meaning::Replacement,
            Some(Class::Progress) => Meaning::Progress,
            Some(Class::Settled | Class::NeedsYou | Class::Fault) | None => Meaning::Other,
        }
    }
}

/// Declares the reasons of a kind. One that lacks a reason which every kind has does not compile.
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

        impl $crate::controller::status::reasons::KindReason for $name {
            fn named(text: &str) -> Option<Self> {
                Self::parse(text)
            }

            fn class(self) -> $crate::controller::status::reasons::Class {
                self.class()
            }
        }

        impl From<$crate::controller::status::reasons::SharedReason> for $name {
            fn from(reason: $crate::controller::status::reasons::SharedReason) -> Self {
                use $crate::controller::status::reasons::SharedReason;
                match reason {
                    SharedReason::Accepted => Self::Accepted,
                    SharedReason::RollingOut => Self::RollingOut,
                    SharedReason::ReplicasUnavailable => Self::ReplicasUnavailable,
                    SharedReason::Progressing => Self::Progressing,
                    SharedReason::InvalidSpec => Self::InvalidSpec,
                    SharedReason::RulesBroken => Self::RulesBroken,
                    SharedReason::AdmissionDisabled => Self::AdmissionDisabled,
                    SharedReason::AccountNotOurs => Self::AccountNotOurs,
                    SharedReason::ChildConflict => Self::ChildConflict,
                    SharedReason::ChildRefused => Self::ChildRefused,
                    SharedReason::FinalizerRefused => Self::FinalizerRefused,
                    SharedReason::RolloutStuck => Self::RolloutStuck,
                    SharedReason::DeadlineExceeded => Self::DeadlineExceeded,
                    SharedReason::RolloutSlow => Self::RolloutSlow,
                    SharedReason::ApplyFailed => Self::ApplyFailed,
                    SharedReason::ReferenceMissing => Self::ReferenceMissing,
                    SharedReason::ReferenceUnreadable => Self::ReferenceUnreadable,
                    SharedReason::Resumed => Self::Resumed,
                }
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
