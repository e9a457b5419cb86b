#!/usr/bin/env bash
# Builds what the overlay matrix of tests/packaging needs besides a cluster, if it is missing: a kustomize of another release
# than the one in kubectl, and the CRDs of the tools that our components and overlays have objects of.
#
#   tests/cluster-tools/packaging/build.sh          build what is missing, say what, print nothing else
#   tests/cluster-tools/packaging/build.sh --where  print the folder it is in and do nothing
#
# The folder has a key of its own, so that a change here rebuilds no cluster. The CRDs come from the modules of their own
# projects; nobody copies them into the repository.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
gitops=$here/../gitops
key=$(cat "$here"/{build.sh,go.mod,go.sum} "$gitops"/{argocd,flux-source,flux-kustomize}/go.mod | sha256sum | cut -c1-16)
bin="${XDG_CACHE_HOME:-$HOME/.cache}/coder-k8s/packaging-$key"
[ "${1:-}" = --where ] && { echo "$bin"; exit 0; }
[ -e "$bin/complete" ] && exit 0

if ! command -v go >/dev/null; then
  echo "The overlay matrix builds kustomize: install Go 1.26 or newer, then run 'make packaging-tools' again." >&2
  exit 1
fi

# The version that the GitOps tests run: there is one list of those.
pinned() { awk -v module="$1" '{ for (i = 1; i < NF; i++) if ($i == module) print $(i + 1) }' "$gitops/$2/go.mod"; }

# module, version, files with its CRDs
crds="github.com/cert-manager/cert-manager v1.21.2 deploy/crds/*.yaml
github.com/prometheus-operator/prometheus-operator v0.85.0 example/prometheus-operator-crd/*_{servicemonitors,prometheusrules}.yaml
github.com/argoproj-labs/argocd-operator v0.15.0 config/crd/bases/argoproj.io_argocds.yaml
github.com/argoproj/argo-cd/v3 $(pinned github.com/argoproj/argo-cd/v3 argocd) manifests/crds/*-crd.yaml
github.com/fluxcd/source-controller $(pinned github.com/fluxcd/source-controller flux-source) config/crd/bases/*_gitrepositories.yaml
github.com/fluxcd/kustomize-controller $(pinned github.com/fluxcd/kustomize-controller flux-kustomize) config/crd/bases/*.yaml"

# Two clones that start at once build once.
mkdir -p "$bin/crds"
exec 9>"$bin/.lock"
flock 9
[ -e "$bin/complete" ] && exit 0
echo "--> building kustomize and fetching CRDs for the overlay matrix (a minute or two, once)"
# Its go.mod names the Go that it needs, which the one on this machine fetches.
CGO_ENABLED=0 GOFLAGS=-mod=readonly GOTOOLCHAIN=auto go build -C "$here" -trimpath -ldflags='-s -w' -o "$bin/kustomize" sigs.k8s.io/kustomize/kustomize/v5
while read -r module version files; do
  folder=$(cd / && go mod download -json "$module@$version" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
  # The folder's name has no blanks; the pattern is meant to be expanded.
  eval "install -m 0644 $folder/$files $bin/crds/"
done <<<"$crds"
touch "$bin/complete"
