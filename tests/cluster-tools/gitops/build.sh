#!/usr/bin/env bash
# Builds the real Flux and Argo CD of the GitOps tests, if they are missing, and sees that Redis is there.
#
#   tests/cluster-tools/gitops/build.sh          build what is missing, say what and how long, print nothing else
#   tests/cluster-tools/gitops/build.sh --where  print the folder they are in and do nothing
#
# The folder has a key of its own: nobody but that target pays for these programs, and a change of them rebuilds no cluster.
# Beside the programs are the CRDs of their own modules, which nobody copies into the repository.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
key=$(cat "$here"/*/go.{mod,sum} | sha256sum | cut -c1-16)
bin="${XDG_CACHE_HOME:-$HOME/.cache}/coder-k8s/gitops-$key"
[ "${1:-}" = --where ] && { echo "$bin"; exit 0; }

if ! command -v redis-server >/dev/null; then
  if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "Argo CD needs Redis: install the package redis-server, then run 'make gitops-tools' again." >&2
    exit 1
  fi
  echo "--> installing Redis with apt-get (some seconds, once)"
  { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends redis-server; } >/dev/null
fi

# name, folder of its go.mod, module, main package below it (a dot: itself), folder of its CRDs in it (a dash: none)
programs="kustomize            kustomize      sigs.k8s.io/kustomize/kustomize/v5      .   -
source-controller    flux-source    github.com/fluxcd/source-controller     .   config/crd/bases
kustomize-controller flux-kustomize github.com/fluxcd/kustomize-controller  .   config/crd/bases
argocd               argocd         github.com/argoproj/argo-cd/v3          /cmd manifests/crds"

missing=""
while read -r name _; do [ -s "$bin/$name" ] || missing="$missing $name"; done <<<"$programs"
[ -n "$missing" ] || exit 0
if ! command -v go >/dev/null; then
  echo "The GitOps tests build Flux and Argo CD: install Go 1.26 or newer, then run 'make gitops-tools' again." >&2
  exit 1
fi

mkdir -p "$bin"
exec 9>"$bin/.lock"
flock 9
echo "Building Flux and Argo CD into $bin (about fourteen minutes on two cores, once)"
export CGO_ENABLED=0 GOFLAGS=-mod=readonly
while read -r name folder module package crds; do
  [ -s "$bin/$name" ] && continue
  began=$SECONDS
  printf '  %-20s ' "$name"
  (while sleep 10; do printf .; done) &
  dots=$!
  built=0
  go build -C "$here/$folder" -trimpath -ldflags='-s -w' -o "$bin/$name.partial" "${module}${package#.}" 2>"$bin/$name.log" || built=$?
  kill "$dots"; wait "$dots" 2>/dev/null || true
  [ "$built" -eq 0 ] || { echo " failed:"; tail -n 20 "$bin/$name.log" >&2; exit 1; }
  source=$(go list -C "$here/$folder" -m -f '{{.Dir}}' "$module")
  if [ "$crds" != - ]; then
    mkdir -p "$bin/crds/$name"
    install -m 0644 "$source/$crds"/*.yaml "$bin/crds/$name/"
    rm -f "$bin/crds/$name/kustomization.yaml"
  fi
  if [ "$name" = argocd ]; then
    # It acts by the name it is called with, and calls two of them itself.
    for role in argocd-application-controller argocd-repo-server argocd-git-ask-pass; do ln -sf argocd "$bin/$role"; done
    install -m 0755 "$source/hack/git-verify-wrapper.sh" "$bin/git-verify-wrapper.sh"
  fi
  mv "$bin/$name.partial" "$bin/$name"
  printf ' %d s\n' $((SECONDS - began))
done <<<"$programs"
