//! Every reason a CoderWorkspaceProxy has in a condition or an Event, once. Logic compares these variants, never text.
//! The tables in `docs/` are made of them; which one holds is decided in `status` and in the steps.

use crate::controller::attached::outside::access_reasons;
use crate::controller::status::reasons::reasons;

reasons! {
    /// Why a condition of a workspace proxy is what it is.
    pub enum Reason {
        Settled {
            ProxyReady: "The Deployment is rolled out, and coderd's health check of the proxy is fine.",
            Available: "The Deployment is rolled out; with a token of yours coderd is not asked about the proxy.",
            ScaledToZero: "No proxy is asked for, and none runs.",
            ControlPlaneAvailable: "The control plane is there and answers.",
            OperatorAccessReady: "coderd accepts the operator's token.",
            BootstrapSecretReady: "coderd accepts the token of `spec.bootstrap.credentialsSecretRef`.",
            Entitled: "The license covers workspace proxies.",
            InGracePeriod: "The license has expired; workspace proxies keep working during its grace period. Renew it.",
            ProxyRegistered: "The proxy is registered in coderd as the spec asks for it.",
            ProxyMoving: "The proxy is registered in another coderd now, or uses a token of yours; its former registration goes when no pod uses it any more.",
            SecretReady: "The Secret holds a token that coderd accepts, or one that you gave.",
            MinimumReplicasReady: "The Deployment has ready pods.",
            Healthy: "coderd's health check of the proxy is fine.",
            Applied: "The Ingress or HTTPRoute is in place.",
            Accepted: "The spec breaks no rule.",
            Suspended: "`spec.suspend` is true: nothing is changed.",
            Resumed: "`spec.suspend` is no longer true.",
            NotRequested: "The spec does not ask for it.",
            TokenReplaced: "The token of the registration was replaced, and pods are started with the new one.",
            ProxyRenamed: "The registration has another name in coderd now.",
            ProxyRemoved: "A registration that is no longer used was removed from coderd.",
            ProxyLeftBehind: "A registration of this object stays in coderd, because nobody can or should remove it.",
            SecretLeftBehind: "A Secret that is no longer used keeps its token: it is immutable, and others have data in it.",
        }
        Progress {
            Creating: "The Deployment is made when there is a token for it.",
            ReplicasUnavailable: "The rollout was complete once: pods were lost, or added ones start. A proxy restarts about once a minute while its control plane does not answer.",
            NoReplicasReady: "No pod of the Deployment is ready yet.",
            WaitingForHealthCheck: "Pods run, and coderd has not checked the proxy yet; it does so about once a minute.",
            WaitingForControlPlane: "The control plane has to answer first.",
            WaitingForAccess: "The token for the control plane has to work first; `OperatorAccessReady` or `BootstrapSecretReady` says how far it is.",
            Progressing: "It is being worked on.",
        }
        Replacement {
            RollingOut: "Pods are being made or replaced.",
        }
        NeedsYou {
            InvalidSpec: "The object cannot be read; correct it as SpecAccepted says.",
            RulesBroken: "The spec breaks rules that came after it was stored; it is worked on all the same.",
            AdmissionDisabled: "The namespace has the label coder.com/admission=disabled, so that nothing is widened.",
            AccountNotOurs: "Nothing is run as a ServiceAccount that this proxy does not control.",
            ChildConflict: "An object of the name of a child belongs to somebody else.",
            ChildRefused: "The API server refuses a child.",
            FinalizerRefused: "The API server does not let the operator set or remove its finalizer.",
            RolloutStuck: "Kubernetes gave up waiting for the rollout, and its pods say why.",
            NoGatewayAPI: "The cluster has no Gateway API, which `spec.expose.gateway` needs.",
            ReferenceMissing: "A Secret or ConfigMap that the spec names, or a key of it, is not there; pods that run are left as they are.",
            ControlPlaneUnavailable: "There is no control plane of this name: create it, or correct the name. Or it is there and cannot be used yet: the message begins with `waiting` where it comes by itself, and says what to do where it does not.",
            OperatorTokenSecretRefMissing: "The control plane names no token, and no database to make one in.",
            URLNotAllowed: "`spec.bootstrap.coderURL` is neither a control plane of this namespace nor allowed by `--allow-url` of the operator; a proxy that runs keeps running.",
            OperatorTokenSecretRefInvalid: "The reference to the token cannot be used.",
            OperatorTokenSecretUnavailable: "The Secret with the token, or its key, is not there.",
            OperatorAccessDisabled: "The control plane has `spec.operatorAccess.disabled`.",
            BootstrapSecretUnavailable: "The Secret of `spec.bootstrap.credentialsSecretRef`, or its key, is not there or not accepted.",
            NotEntitled: "The license does not cover workspace proxies; none is registered or removed.",
            NotSupported: "This build of coderd has no workspace proxies.",
            Forbidden: "Something between the operator and coderd refuses the request for entitlements, which needs no token.",
            ProxyNameConflict: "coderd has a proxy of this name that this object did not register, or an older CoderWorkspaceProxy has the name.",
            SecretNotOurs: "The Secret that is to hold the token belongs to somebody else.",
            SecretImmutable: "The Secret that is to hold the token is immutable, so that no other token can be written to it.",
            TokenContested: "Somebody else replaces the token of this proxy again and again: two objects, perhaps of two clusters, have one registration.",
            TokenSecretUnavailable: "The Secret of `spec.proxySessionTokenSecretRef`, or its key, is not there.",
            TokenSourceMissing: "The spec has none of controlPlaneRef, bootstrap and proxySessionTokenSecretRef.",
            CertificateNameMissing: "Proxies cannot verify the control plane: its certificate has no name that they could reach it by.",
            ProxyUnreachable: "coderd cannot reach the proxy at its access URL: DNS, the Ingress, Gateway or load balancer, the certificate and what filters traffic on the way are yours to mend. coderd checks again about once a minute.",
            TooManyRetiring: "Too many earlier registrations are in control planes that cannot be reached; make one reachable again, or delete it if it is gone for good.",
        }
        Fault {
            ApplyFailed: "A child could not be applied; it is tried again.",
            ReferenceUnreadable: "A Secret or ConfigMap that the spec names could not be read; nothing is changed until it can.",
            ExposureFailed: "The Ingress or HTTPRoute could not be applied.",
            OperatorAccessNotReady: "The operator has no token that works yet.",
            EntitlementsQueryFailed: "coderd did not say what the license covers.",
            RegistrationFailed: "A call to coderd about the registration failed.",
            SecretWriteFailed: "The Secret that is to hold the token cannot be written; no token is replaced before it can be.",
            ProxyUnhealthy: "coderd reaches the proxy, and the proxy reports errors, which the message repeats; the logs of its pods say more.",
            RateLimited: "coderd asked to be left alone for a while.",
            RolloutSlow: "The rollout takes longer than its deadline, and its pods still start.",
            DeadlineExceeded: "A reconcile ran out of time; the rest follows in the next one.",
            CleanupFailed: "The registration could not be removed from coderd, so that the object stays; it is tried again.",
        }
    }
}

access_reasons!(Reason);
