// The kustomize program that Argo CD calls in `make test-gitops`, pinned.
module coder-k8s.local/cluster-tools/gitops/kustomize

go 1.26.0

require sigs.k8s.io/kustomize/kustomize/v5 v5.8.1
