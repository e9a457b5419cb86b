#!/usr/bin/env bash
# Runs every test of the workspace. `cargo test` runs the same programs one after the other, but most of them wait for a
# cluster more than they compute: here SUITES_AT_ONCE of them run at the same time.
#
# Each starts in the folder of its package, as with cargo. What it prints is shown when it ends, so that nothing is mixed.
# All of them run, whoever fails; the last line adds up their tests.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

at_once=${SUITES_AT_ONCE:-2}
# They start first, so that in the end nobody waits for one of them alone.
longest=(escalation control_plane operator_access provisioner workspace_proxy process packaging scale admission api)

logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

# From cargo's messages, one line a test program: its source, its package's folder, its path.
programs() {
  local package='"manifest_path":"\([^"]*\)/Cargo.toml"' source='"src_path":"\([^"]*\)"' path='"executable":"\([^"]*\)"'
  sed -n "s|.*$package.*$source.*\"profile\":{[^}]*\"test\":true}.*$path.*|\2\t\1\t\3|p" | sed "s|^$PWD/||"
}

longest_first() {
  local all
  all=$(cat)
  for suite in "${longest[@]}"; do grep "^tests/$suite/" <<<"$all" || true; done
  grep -vE "^tests/($(IFS='|' && echo "${longest[*]}"))/" <<<"$all" || true
}

# Runs one program; then shows how it ended and what it printed, in one piece. Only one that ends well and says so is noted as
# passed: whatever else becomes of it, or of this job, is a failure.
run() {
  local suite=$1 log=$logs/${1//\//:}.log began=$SECONDS ended=passed
  shift
  echo "--> $suite"
  "$@" >>"$log" 2>&1 </dev/null || ended="FAILED (exit code $?)"
  if [ "$ended" = passed ] && ! grep -q '^test result: ok' "$log"; then ended="FAILED (it ended without a result)"; fi
  [ "$ended" != passed ] || touch "$log.passed"
  { flock 9 && printf '\n==> %s %s in %d s\n' "$suite" "$ended" $((SECONDS - began)) && cat "$log"; } 9>"$logs/lock"
}

count() { cat "$logs"/*.log | sed -nE "s/^test result: .* ([0-9]+) $1;.*/\1/p" | awk '{ sum += $1 } END { print sum + 0 }'; }

cargo test --locked --workspace --no-run --message-format=json-render-diagnostics >"$logs/built"
programs <"$logs/built" | longest_first >"$logs/suites"
# Every folder with a main.rs is a suite: one that cargo did not name would not run, and nobody would notice.
for folder in tests/*/main.rs; do
  grep -q "^$folder" "$logs/suites" || { echo "cargo's messages do not name $folder" >&2; exit 1; }
done

# Jobs of a script do not hear Ctrl-C: their clusters would run on.
trap 'trap - INT TERM; kill 0' INT TERM

running=0
while IFS=$'\t' read -r suite folder program; do
  if [ "$running" -eq "$at_once" ]; then wait -n; else running=$((running + 1)); fi
  run "$suite" env -C "$folder" "$program" &
done <"$logs/suites"
wait
run "documentation" cargo test --locked --workspace --doc

failed=""
while IFS=$'\t' read -r suite _; do
  log=$logs/${suite//\//:}.log
  [ -e "$log.passed" ] || failed="$failed$suite"$'\n'"$(sed -n 's/^test \(.*\) \.\.\. FAILED$/    \1/p' "$log")"$'\n'
done < <(cat "$logs/suites" && echo documentation)
[ -z "$failed" ] || printf '\nFailed; what they printed is above, after "==> <suite> FAILED":\n%s' "$failed"
suites=$(grep -c . <<<"$failed" || true)
# A suite that died has no failed test of its own, and is one all the same.
tests=$(count failed)
printf '\n%d passed, %d failed, %d skipped\n' "$(count passed)" $((tests > 0 || suites == 0 ? tests : 1)) "$(count ignored)"
[ -z "$failed" ]
