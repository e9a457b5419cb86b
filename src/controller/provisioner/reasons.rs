//! Every reason a CoderProvisioner has in a condition or an Event, once. Logic compares these variants, never text.
//! The tables in `docs/` are made of them; which one holds is decided in `status` and in the steps.

use crate::controller::attached::outside::access_reasons;
use crate::controller::status::reasons::reasons;

reasons! {
    /// Why a condition of a provisioner is what it is.
    pub enum Reason {
        Settled {
            DaemonsConnected: "The Deployment is rolled out, and coderd sees daemons with the key.",
            ScaledToZero: "No daemons are asked for, and none run.",
            ControlPlaneAvailable: "The control plane is there and answers.",
            OperatorAccessReady: "coderd accepts the operator's token.",
            BootstrapSecretReady: "coderd accepts the token of `spec.bootstrap.credentialsSecretRef`.",
            Entitled: "The license covers external provisioners.",
            InGracePeriod: "The license has expired; external provisioners keep working during its grace period. Renew it.",
            ProvisionerKeyReady: "The key is in coderd, with the name and tags of the spec.",
            SecretReady: "The Secret holds the key.",
            MinimumReplicasReady: "The Deployment has ready pods.",
            Accepted: "The spec breaks no rule.",
            Suspended: "`spec.suspend` is true: nothing is changed.",
            Resumed: "`spec.suspend` is no longer true.",
            NotRequested: "The spec does not ask for it.",
            KeyCreated: "A provisioner key was made in coderd.",
            KeyDeleted: "A provisioner key that is no longer used was deleted in coderd.",
            KeyNameTaken: "Somebody else has a key of this name in coderd: it was left alone, and the next number is used.",
            PodReplaced: "A pod was ready and coderd did not hear of its daemon for minutes: it was deleted, and another takes its place.",
            KeyLeftBehind: "A key of this object stays in coderd, because nobody can or should delete it.",
            SecretLeftBehind: "A Secret that is no longer used keeps its key: it is immutable, and others have data in it.",
        }
        Progress {
            Creating: "The Deployment is made when the key is there.",
            ReplicasUnavailable: "The rollout was complete once: pods were lost, or added ones start.",
            NoReplicasReady: "No pod of the Deployment is ready yet.",
            WaitingForDaemons: "Pods run, and coderd does not see their daemons yet.",
            WaitingForControlPlane: "The control plane has to answer first.",
            WaitingForAccess: "The token for the control plane has to work first; `OperatorAccessReady` or `BootstrapSecretReady` says how far it is.",
            Progressing: "It is being worked on.",
            Stopping: "Daemons finish their builds before the key is deleted.",
        }
        Replacement {
            RollingOut: "Pods are being made or replaced.",
            KeyRotating: "Keys are replaced: the one before goes when no daemon uses it any more. False while the one that the spec asks for waits for that.",
        }
        NeedsYou {
            InvalidSpec: "The object cannot be read; correct it as SpecAccepted says.",
            RulesBroken: "The spec breaks rules that came after it was stored; it is worked on all the same.",
            AdmissionDisabled: "The namespace has the label coder.com/admission=disabled, so that nothing is widened.",
            AccountNotOurs: "Nothing is run as a ServiceAccount that this provisioner does not control.",
            ChildConflict: "An object of the name of a child belongs to somebody else.",
            ChildRefused: "The API server refuses a child.",
            FinalizerRefused: "The API server does not let the operator set or remove its finalizer.",
            RolloutStuck: "Kubernetes gave up waiting for the rollout, and its pods say why.",
            ReferenceMissing: "A Secret or ConfigMap that the spec names, or a key of it, is not there; pods that run are left as they are.",
            ControlPlaneUnavailable: "There is no control plane of this name: create it, or correct the name. Or it is there and cannot be used yet: the message begins with `waiting` where it comes by itself, and says what to do where it does not.",
            OperatorTokenSecretRefMissing: "The control plane names no token, and no database to make one in.",
            OperatorTokenSecretRefInvalid: "The reference to the token cannot be used.",
            OperatorTokenSecretUnavailable: "The Secret with the token, or its key, is not there.",
            OperatorAccessDisabled: "The control plane has `spec.operatorAccess.disabled`.",
            BootstrapSecretUnavailable: "The Secret of `spec.bootstrap.credentialsSecretRef`, or its key, is not there or not accepted.",
            NotEntitled: "The license does not cover external provisioners; keys are neither made nor deleted.",
            NotSupported: "This build of coderd has no external provisioners.",
            Forbidden: "Something between the operator and coderd refuses the request for entitlements, which needs no token.",
            OrganizationMissing: "coderd has no organization of this name, or does not show it.",
            KeyNameConflict: "An older CoderProvisioner of this control plane has this key name in this organization.",
            SecretNotOurs: "The Secret that is to hold the key belongs to somebody else.",
            SecretImmutable: "The Secret that is to hold the key is immutable, so that no other key can be written to it.",
            CertificateNameMissing: "Daemons cannot be led to the control plane: its certificate has no name that they could reach it by, or coderd redirects them elsewhere.",
            KeyGivenBySpec: "The spec gives daemons another key than the one the operator made, so that coderd sees none of them with it.",
            TooManyRetiring: "Too many earlier keys are in control planes that cannot be reached, or too many earlier Secrets are used by pods.",
        }
        Fault {
            ApplyFailed: "A child could not be applied; it is tried again.",
            ReferenceUnreadable: "A Secret or ConfigMap that the spec names could not be read; nothing is changed until it can.",
            OperatorAccessNotReady: "The operator has no token that works yet.",
            EntitlementsQueryFailed: "coderd did not say what the license covers.",
            ProvisionerKeyFailed: "A call to coderd about the key failed.",
            RateLimited: "coderd asked to be left alone for a while.",
            RolloutSlow: "The rollout takes longer than its deadline, and its pods still start.",
            DeadlineExceeded: "A reconcile ran out of time; the rest follows in the next one.",
            CleanupFailed: "The key could not be deleted in coderd, so that the object stays; it is tried again.",
        }
    }
}

access_reasons!(Reason);
