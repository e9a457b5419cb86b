#!/usr/bin/env bash
# Builds the fuzz targets and runs each for a bounded time, starting from the stored corpus; `make fuzz` calls it.
# With a target and files it replays those instead:  tests/fuzz/run.sh lint target/fuzz/crashes/lint/crash-...
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

seconds=${FUZZ_SECONDS:-60}
[[ $seconds =~ ^[1-9][0-9]*$ ]] || { echo "FUZZ_SECONDS is a number of seconds, not '$seconds'" >&2; exit 2; }
out=$PWD/target/fuzz
host=$(rustc -vV | sed -n 's/^host: //p')

# What cargo-fuzz sets when no sanitizer is asked for: counters of edges and traces of comparisons work on stable.
# Naming the target keeps these flags away from build scripts and macros.
coverage='--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4
  -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table
  -Cllvm-args=-sanitizer-coverage-trace-compares'
echo "--> building the fuzz targets (some minutes the first time)"
# Not --locked: its lock file follows the main one with every dependency that is added there.
RUSTFLAGS=${coverage//$'\n'/ } CARGO_TARGET_DIR=$out \
  cargo build --quiet --release --target "$host" --manifest-path tests/fuzz/Cargo.toml

# Memory and time of one input are bounded: a manifest that takes more of either is a finding.
limits=(-rss_limit_mb=2048 -malloc_limit_mb=1024 -timeout=10)

if (($#)); then
  target=$1
  shift
  exec "$out/$host/release/$target" "${limits[@]}" "$@"
fi

failed=0
for target in review lint; do
  found=$out/found/$target crashes=$out/crashes/$target
  mkdir -p "$found" "$crashes"
  echo "--> $target: $seconds s"
  # New inputs are kept below target/ and used again by the next run; the stored corpus is only read.
  if ! "$out/$host/release/$target" "${limits[@]}" -max_total_time="$seconds" -max_len=65536 \
    -dict="tests/fuzz/$target.dict" -artifact_prefix="$crashes/" -print_final_stats=1 \
    "$found" "tests/fuzz/corpus/$target" 2>&1 | grep --line-buffered -vE $'^#[0-9]+\t(NEW|REDUCE)|NEW_FUNC|# Uses: |^######'; then
    failed=1
    newest=$(ls -t "$crashes" | head -n 1)
    echo "--> $target failed on target/fuzz/crashes/$target/$newest" >&2
    echo "    replay it:  tests/fuzz/run.sh $target target/fuzz/crashes/$target/$newest" >&2
    echo "    keep it:    cp it to tests/fuzz/corpus/$target/ under a name that says what it is; 'make test' replays it" >&2
  fi
done
exit "$failed"
