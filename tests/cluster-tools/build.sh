#!/usr/bin/env bash
# Builds the binaries of the test cluster that are missing, from the pinned Go modules beside this file.
#
#   tests/cluster-tools/build.sh          build what is missing, say what and how long, print nothing else
#   tests/cluster-tools/build.sh --where  print the folder they are in and do nothing
#
# The folder lives in the user's cache, keyed by the content of the modules: it survives `cargo clean`,
# is shared by every clone, and a changed version never meets an old binary.
# A binary that KUBEBUILDER_ASSETS already offers is not built.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
key=$(cat "$here"/kubernetes/go.{mod,sum} "$here"/kwok/go.{mod,sum} | sha256sum | cut -c1-16)
bin="${XDG_CACHE_HOME:-$HOME/.cache}/coder-k8s/cluster-tools-$key"
[ "${1:-}" = --where ] && { echo "$bin"; exit 0; }

kubernetes=$(awk '$1 == "k8s.io/kubernetes" { print $2 }' "$here/kubernetes/go.mod")
minor=$(cut -d. -f2 <<<"$kubernetes")
version=k8s.io/component-base/version
flags="-s -w -X $version.gitVersion=$kubernetes -X $version.gitMajor=1 -X $version.gitMinor=$minor"

# name, module folder, main package: cheapest first, so that a broken toolchain shows in seconds.
tools="etcd                    kubernetes go.etcd.io/etcd/server/v3
kube-apiserver          kubernetes k8s.io/kubernetes/cmd/kube-apiserver
kube-controller-manager kubernetes k8s.io/kubernetes/cmd/kube-controller-manager
kube-scheduler          kubernetes k8s.io/kubernetes/cmd/kube-scheduler
kubectl                 kubernetes k8s.io/kubernetes/cmd/kubectl
kwok                    kwok       sigs.k8s.io/kwok/cmd/kwok"

# The newest and the oldest supported coderd, for their database schema; nothing of them is built.
coderd="v2.36.1 v2.30.0"

# CloudNativePG, for the definition of its Cluster; nothing of it is built.
cnpg="v1.28.0"

have() { [ -s "$bin/$1" ] || { [ -n "${KUBEBUILDER_ASSETS:-}" ] && [ -s "$KUBEBUILDER_ASSETS/$1" ]; }; }

missing=""
while read -r name _; do have "$name" || missing="$missing $name"; done <<<"$tools
kwok-stages.yaml
cnpg-clusters-$cnpg.yaml
$(for version in $coderd; do echo "coderd-schema-$version.sql"; done)"
[ -n "$missing" ] || exit 0

if ! command -v go >/dev/null; then
  cat >&2 <<MESSAGE
The test cluster needs:$missing
There is neither a Go toolchain on PATH to build them, nor are they in KUBEBUILDER_ASSETS. Two ways out:
  1. install Go 1.26 or newer, then run 'make cluster-tools' (about 11 minutes, once)
  2. export KUBEBUILDER_ASSETS=/folder/with$missing
MESSAGE
  exit 1
fi

# Two clones that start at once build once: the second waits here and then finds everything done.
mkdir -p "$bin"
exec 9>"$bin/.lock"
flock 9

total=$(tr ' ' '\n' <<<"$missing" | grep -cvE '^$|\.(yaml|sql)$' || true)
[ "$total" -eq 0 ] || echo "Building the test cluster into $bin (once; about 11 minutes on two cores for all six)"
number=0
while read -r name module package; do
  case " $missing " in *" $name "*) ;; *) continue ;; esac
  number=$((number + 1))
  have "$name" && continue
  began=$SECONDS
  printf '  [%d/%d] %-24s ' "$number" "$total" "$name"
  # A dot every ten seconds: the API server alone takes minutes.
  (while sleep 10; do printf .; done) &
  dots=$!
  if ! GOFLAGS=-mod=readonly go build -C "$here/$module" -trimpath -ldflags="$flags" -o "$bin/$name.partial" "$package" 2>"$bin/$name.log"; then
    kill "$dots"; wait "$dots" 2>/dev/null || true
    echo " failed:"; tail -n 20 "$bin/$name.log" >&2
    exit 1
  fi
  kill "$dots"; wait "$dots" 2>/dev/null || true
  mv "$bin/$name.partial" "$bin/$name"
  printf ' %d s\n' $((SECONDS - began))
done <<<"$tools"

# kwok knows what a node and a pod do from "stages", which its module carries.
if ! have kwok-stages.yaml; then
  stages=$(cd "$here/kwok" && go list -m -f '{{.Dir}}' sigs.k8s.io/kwok)/kustomize/stage
  for stage in "$stages"/node/fast/*.yaml "$stages"/node/heartbeat-with-lease/*.yaml "$stages"/pod/fast/*.yaml; do
    [ "$(basename "$stage")" = kustomization.yaml ] && continue
    cat "$stage"
    printf '\n---\n'
  done >"$bin/kwok-stages.partial"
  mv "$bin/kwok-stages.partial" "$bin/kwok-stages.yaml"
fi

# Database tests load coderd's real schema, which its module carries; it stays in the cache.
for version in $coderd; do
  have "coderd-schema-$version.sql" && continue
  echo "  coderd's schema at $version (a download of 20 s)"
  folder=$(cd / && go mod download -json "github.com/coder/coder/v2@$version" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
  cp "$folder/coderd/database/dump.sql" "$bin/coderd-schema.partial"
  chmod u+w "$bin/coderd-schema.partial"
  mv "$bin/coderd-schema.partial" "$bin/coderd-schema-$version.sql"
done

# The examples have a Cluster of CloudNativePG, whose module carries its definition.
if ! have "cnpg-clusters-$cnpg.yaml"; then
  echo "  CloudNativePG's definitions at $cnpg (a download of some seconds)"
  folder=$(cd / && go mod download -json "github.com/cloudnative-pg/cloudnative-pg@$cnpg" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
  cp "$folder/config/crd/bases/postgresql.cnpg.io_clusters.yaml" "$bin/cnpg-clusters.partial"
  chmod u+w "$bin/cnpg-clusters.partial"
  mv "$bin/cnpg-clusters.partial" "$bin/cnpg-clusters-$cnpg.yaml"
fi
