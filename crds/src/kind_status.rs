//! Decides what every kind reports, in the same words: what kstatus, `kubectl scale` and autoscalers read.
//! Never decides what a kind reports besides. It is no struct to flatten: serde reads those through a copy of the whole.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// What every kind reports.
pub trait KindStatus: Clone + Default + Serialize + DeserializeOwned {
    /// Its conditions.
    fn conditions(&self) -> &[Condition];

    /// The same, to be changed.
    fn conditions_mut(&mut self) -> &mut Vec<Condition>;

    /// Records which generation and which request to be reconciled it was written for.
    fn set_handled(&mut self, generation: i64, reconcile_at: Option<String>);

    /// Records in one word whether the condition Ready is True.
    fn set_phase(&mut self, ready: bool);
}

/// Defines the status of a kind, by what it reports besides.
macro_rules! kind_status {
    (pub struct $status:ident { $($besides:tt)* }) => {
        /// What the operator saw last.
        #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        #[serde(rename_all = "camelCase")]
        pub struct $status {
            /// Generation of the spec this status speaks about; -1 until the operator has looked.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub observed_generation: Option<i64>,
            /// Value of the annotation `coder.com/reconcile-at` that was handled last.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub last_handled_reconcile_at: Option<String>,
            /// `Ready` when the condition Ready is True, otherwise `Pending`.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub phase: Option<String>,
            /// Ready, Reconciling and Stalled, and what stands behind them; one entry a type.
            #[serde(default, skip_serializing_if = "Vec::is_empty")]
            #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
            pub conditions: Vec<k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition>,
            /// Pods of the Deployment, ready or not; `kubectl scale` and autoscalers read it.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub replicas: Option<i32>,
            /// Pods that are ready.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub ready_replicas: Option<i32>,
            /// Label selector of the pods, in text form, for autoscalers.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub selector: Option<String>,
            $($besides)*
        }

        impl $crate::KindStatus for $status {
            fn conditions(&self) -> &[k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition] {
                &self.conditions
            }

            fn conditions_mut(&mut self) -> &mut Vec<k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition> {
                &mut self.conditions
            }

            fn set_handled(&mut self, generation: i64, reconcile_at: Option<String>) {
                self.observed_generation = Some(generation);
                self.last_handled_reconcile_at = reconcile_at;
            }

            fn set_phase(&mut self, ready: bool) {
                self.phase = Some(if ready { "Ready" } else { "Pending" }.to_owned());
            }
        }
    };
}

pub(crate) use kind_status;
