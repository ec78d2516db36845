#!/usr/bin/env bash
# Runs the commands of README.md: every ```sh block below a line `<!-- run -->` or `<!-- run: slow -->`, in order, in one
# scratch folder that looks like a checkout after a build. What a block exports (PATH) holds for those after it, as in a
# reader's shell; nothing else tells them where `forebay` is.
# tests/readme.sh [quick|normal|long]: quick leaves the slow ones out. Ends with `N passed, M failed`.
#
# `cargo` is the workspace's, wherever the scratch folder is.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
size="${1:-normal}"
target="${CARGO_TARGET_DIR:-$root/target}"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT

# Writes every marked block to a file of its own: NUMBER.sh, the first line saying where it stands.
awk -v folder="$scratch/blocks" -v size="$size" '
    BEGIN { system("mkdir -p " folder) }
    /^<!-- run -->$/ { marked = 1; next }
    /^<!-- run: slow -->$/ { marked = (size != "quick"); next }
    /^```sh$/ && marked { file = sprintf("%s/%03d.sh", folder, ++count); print "# README.md:" NR > file; next }
    /^```/ { file = ""; marked = 0; next }
    file { print > file }
' "$root/README.md"

cat >"$scratch/prelude" <<PRELUDE
set -euo pipefail
export CARGO_TARGET_DIR="$target"
if [ -e "$scratch/environment" ]; then . "$scratch/environment"; fi
trap 'export -p >"$scratch/environment"' EXIT
cargo() {
    if [ "\$1" = run ]; then
        shift
        command cargo run --manifest-path "$root/Cargo.toml" "\$@"
    else
        (cd "$root" && command cargo "\$@")
    fi
}
PRELUDE

mkdir "$scratch/reader"
ln -s "$target" "$scratch/reader/target"
cd "$scratch/reader"
passed=0
failed=0
for block in "$scratch"/blocks/*.sh; do
    [ -e "$block" ] || { echo "README.md has no runnable block"; failed=1; break; }
    echo "+ $(sed '1s/^# //; s/$/ /' "$block" | tr '\n' ' ' | cut -c1-110)"
    status=0
    BASH_ENV='' bash -c ". '$scratch/prelude'; . '$block'" </dev/null >"$scratch/output" 2>&1 || status=$?
    tail -n 40 "$scratch/output"
    if [ "$status" -eq 0 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED with status $status: $(head -n 1 "$block")"
    fi
done
printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
