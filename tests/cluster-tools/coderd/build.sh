#!/usr/bin/env bash
# Builds the real coderd that `make test-contract` compares the double with, if it is missing.
#
#   tests/cluster-tools/coderd/build.sh          build what is missing, say what and how long, print nothing else
#   tests/cluster-tools/coderd/build.sh --where  print the folder it is in and do nothing
#
# The folder has a key of its own: nobody but that target pays for this server, and a change of it rebuilds no cluster.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
key=$(cat "$here"/go.{mod,sum} | sha256sum | cut -c1-16)
bin="${XDG_CACHE_HOME:-$HOME/.cache}/coder-k8s/coderd-$key"
[ "${1:-}" = --where ] && { echo "$bin"; exit 0; }

module=github.com/coder/coder/v2
release=$(awk -v module="$module" '$1 == "require" && $2 == module { print $3 } $1 == module { print $2 }' "$here/go.mod" | head -n1)
# The server writes the leading v itself; without the flag it calls itself a development build.
flags="-s -w -X $module/buildinfo.tag=${release#v}"

# name, main package: what users run, and the open-source half of it, which lacks the licensed routes.
servers="coder             $module/enterprise/cmd/coder
coder-open-source $module/cmd/coder"

missing=""
while read -r name _; do [ -s "$bin/$name" ] || missing="$missing $name"; done <<<"$servers"
[ -n "$missing" ] || exit 0
if ! command -v go >/dev/null; then
  echo "The contract tests build coderd $release: install Go 1.26 or newer, then run 'make test-contract' again." >&2
  exit 1
fi

mkdir -p "$bin"
exec 9>"$bin/.lock"
flock 9
echo "Building coderd $release into $bin (about ten minutes on two cores, once)"
while read -r name package; do
  [ -s "$bin/$name" ] && continue
  began=$SECONDS
  printf '  %-18s ' "$name"
  (while sleep 10; do printf .; done) &
  dots=$!
  built=0
  CGO_ENABLED=0 GOFLAGS=-mod=readonly go build -C "$here" -trimpath -ldflags="$flags" -o "$bin/$name.partial" "$package" \
    2>"$bin/$name.log" || built=$?
  kill "$dots"; wait "$dots" 2>/dev/null || true
  [ "$built" -eq 0 ] || { echo " failed:"; tail -n 20 "$bin/$name.log" >&2; exit 1; }
  mv "$bin/$name.partial" "$bin/$name"
  printf ' %d s\n' $((SECONDS - began))
done <<<"$servers"
