#!/usr/bin/env bash
# Builds a release below a folder: for each architecture a static binary and an archive of it with completions and manual
# pages; install.yaml of the default overlay; a software bill of materials; checksums of all of them.
#
#   REGISTRY=ghcr.io/coder ARCHITECTURES="amd64 arm64" KUBECTL=kubectl dist/build.sh target/dist
#
# musl, since a static glibc resolves no names. Needed besides Rust: readelf (binutils), musl-gcc (musl-tools) for amd64 and
# aarch64-linux-gnu-gcc (gcc-aarch64-linux-gnu) for arm64; rustup brings the targets.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
out=${1:?usage: dist/build.sh FOLDER}
: "${REGISTRY:?}" "${ARCHITECTURES:?}" "${KUBECTL:?}"
version=$(sed -n '/^\[workspace.package\]/,/^\[/ s/^version = "\(.*\)"/\1/p' Cargo.toml)
target=$(cargo metadata --format-version=1 --no-deps --offline | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')

# The C parts (the allocator, cryptography) and the linker of each platform.
export CC_x86_64_unknown_linux_musl=musl-gcc
export CC_aarch64_unknown_linux_musl=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER=rust-lld
# The compiler for glibc would otherwise use its outlined atomics and checked functions, which musl does not have.
export CFLAGS_aarch64_unknown_linux_musl="-mno-outline-atomics -U_FORTIFY_SOURCE"

# Says whether a program is static; without readelf nobody knows, and nothing is released.
is_static() {
  local headers
  headers=$(readelf --program-headers --dynamic --wide "$1") || return
  ! grep -Eq 'INTERP|\(NEEDED\)' <<<"$headers"
}

triple() {
  case $1 in
    amd64) echo x86_64-unknown-linux-musl ;;
    arm64) echo aarch64-unknown-linux-musl ;;
    *) echo "$1 is neither amd64 nor arm64" >&2; return 1 ;;
  esac
}

command -v readelf >/dev/null || { echo "install readelf (binutils): it shows whether a program is static" >&2; exit 1; }
rm -rf "$out"
mkdir -p "$out"
for architecture in $ARCHITECTURES; do
  triple=$(triple "$architecture")
  rustup target add "$triple" 2>/dev/null || true
  echo "--> building coder-k8s for $architecture"
  cargo build --locked --release --target "$triple" --bin coder-k8s
  cp "$target/$triple/release/coder-k8s" "$out/coder-k8s-linux-$architecture"
  is_static "$out/coder-k8s-linux-$architecture" || { echo "coder-k8s-linux-$architecture is not static" >&2; exit 1; }
  dist/sbom.sh "$triple" "$version" >"$out/coder-k8s-linux-$architecture.cdx.json"
done

# Completions and manual pages are the same everywhere: whichever binary runs here writes them.
pages=$(mktemp -d)
trap 'rm -rf "$pages"' EXIT
for architecture in $ARCHITECTURES; do
  binary="$out/coder-k8s-linux-$architecture"
  if "$binary" --version >/dev/null 2>&1; then runs=$binary; fi
done
: "${runs:?none of the binaries runs on this machine}"
"$runs" manual --output="$pages/man/man1"
mkdir "$pages/completions"
for shell in bash elvish fish powershell zsh; do "$runs" completion $shell >"$pages/completions/coder-k8s.$shell"; done

for architecture in $ARCHITECTURES; do
  name="coder-k8s-$version-linux-$architecture"
  mkdir "$pages/$name"
  cp -r "$pages/man" "$pages/completions" LICENSE README.md CHANGELOG.md "$pages/$name"
  cp "$out/coder-k8s-linux-$architecture" "$pages/$name/coder-k8s"
  # The same commit makes the same archive.
  tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$(git log -1 --format=%ct 2>/dev/null || echo 0)" \
    -C "$pages" -c "$name" | gzip -n >"$out/$name.tar.gz"
done

# The default overlay with the image where it is published.
mkdir "$pages/install"
cat >"$pages/install/kustomization.yaml" <<KUSTOMIZATION
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
  - $(realpath --relative-to="$pages/install" kustomize/overlays/default)
images:
  - name: ghcr.io/coder/coder-k8s
    newName: $REGISTRY/coder-k8s
    newTag: $version
KUSTOMIZATION
"$KUBECTL" kustomize "$pages/install" >"$out/install.yaml"
platforms=$(printf 'linux/%s\n' $ARCHITECTURES | paste -sd,)
sed "s|PLATFORMS|$platforms|" dist/Containerfile >"$out/Containerfile"

(cd "$out" && sha256sum -- * >"$pages/SHA256SUMS" && mv "$pages/SHA256SUMS" .)
ls -l "$out"
