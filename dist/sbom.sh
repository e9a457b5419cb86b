#!/usr/bin/env bash
# Prints what the binary for a platform is made of, as CycloneDX JSON: every crate that is compiled into it or runs while it is
# built, with its license and the checksum of Cargo.lock.
#
#   dist/sbom.sh x86_64-unknown-linux-musl 0.1.0
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
triple=${1:?usage: dist/sbom.sh TARGET VERSION} version=${2:?}
# name, version, license; `cargo tree` marks what it printed before, and names the folder of our own crates.
crates=$(cargo tree --locked --package coder-k8s --target "$triple" --edges normal,build --prefix none --no-dedupe \
  --format '{p}|{l}' | sed -E 's/^([^ ]+) v([^ |]+)[^|]*\|/\1|\2|/' | sort -u)
awk -F'|' -v version="$version" -v triple="$triple" '
  FNR == NR {
    if ($0 ~ /^name = /) { name = $0; gsub(/^name = "|"$/, "", name) }
    if ($0 ~ /^version = /) { of = $0; gsub(/^version = "|"$/, "", of) }
    if ($0 ~ /^checksum = /) { sum = $0; gsub(/^checksum = "|"$/, "", sum); sums[name "@" of] = sum }
    next
  }
  $1 == "coder-k8s" { next }
  {
    purl = "pkg:cargo/" $1 "@" $2
    license = $3; gsub("/", " OR ", license)
    line = sprintf("    {\"type\": \"library\", \"bom-ref\": \"%s\", \"name\": \"%s\", \"version\": \"%s\", \"purl\": \"%s\"", purl, $1, $2, purl)
    if (license != "") line = line sprintf(", \"licenses\": [{\"expression\": \"%s\"}]", license)
    if (($1 "@" $2) in sums) line = line sprintf(", \"hashes\": [{\"alg\": \"SHA-256\", \"content\": \"%s\"}]", sums[$1 "@" $2])
    lines[++count] = line "}"
  }
  END {
    print "{"
    print "  \"bomFormat\": \"CycloneDX\", \"specVersion\": \"1.5\", \"version\": 1,"
    printf "  \"metadata\": {\"component\": {\"type\": \"application\", \"name\": \"coder-k8s\", \"version\": \"%s\",\n", version
    printf "    \"bom-ref\": \"pkg:cargo/coder-k8s@%s\", \"properties\": [{\"name\": \"target\", \"value\": \"%s\"}]}},\n", version, triple
    print "  \"components\": ["
    for (at = 1; at <= count; at++) print lines[at] (at < count ? "," : "")
    print "  ]"
    print "}"
    if (count < 50) exit 1
  }' Cargo.lock <(echo "$crates")
