# What the scripts beside this one share. They take as arguments what `zerolock train` takes, but for --out and
# --placement, and train twice: without the fault, then with it; the adapters must be the same to the last bit.
#   ZEROLOCK  the program (build/release/bin/zerolock)
#   OUT       folder for the runs (a temporary one, removed at the end)
set -euo pipefail
zerolock=${ZEROLOCK:-build/release/bin/zerolock}
name=$(basename "$0")
[ -x "$zerolock" ] || { echo "$name: $zerolock is not there; run scripts/build, or set ZEROLOCK" >&2; exit 2; }
[ $# -gt 0 ] || { echo "usage: $0 --model M --data D [flags of zerolock train]" >&2; exit 2; }
out=${OUT:-$(mktemp -d)}
mkdir -p "$out"
[ -n "${OUT:-}" ] || trap 'rm -rf "$out"' EXIT

weights() { echo "$out/$1/adapter/adapter_model.safetensors"; }

# The run without a fault, whose adapter is the measure.
undisturbed() {
  "$zerolock" train "$@" --placement processes --out "$out/undisturbed" > "$out/undisturbed.log" 2>&1 ||
    { tail -n 3 "$out/undisturbed.log" >&2; exit 1; }
}

# Starts the run that is to be disturbed, and waits until window 2 is behind it. Its process: $run.
start_disturbed() {
  "$zerolock" train "$@" --placement processes --out "$out/disturbed" > "$out/disturbed.log" 2>&1 &
  run=$!
  grep -q -m 1 'window 2/' < <(tail --pid="$run" -n +1 -F "$out/disturbed.log" 2> /dev/null) ||
    { tail -n 3 "$out/disturbed.log" >&2; exit 1; }
}

# Process numbers of the executors of $run, one a line, in the order of their stages.
executors() { pgrep -P "$run" -f -a -- ' executor ' | sort -k 5 | sed 's/ .*//' || true; }

compare() {
  if cmp "$(weights undisturbed)" "$(weights disturbed)"; then
    echo "$name: the adapters are the same, bit by bit"
  else
    echo "$name: the adapters differ" >&2
    exit 1
  fi
}

finish_disturbed() {
  wait "$run" || { tail -n 3 "$out/disturbed.log" >&2; exit 1; }
  grep -E 'restarted|lost|goes to' "$out/disturbed.log" || true
  compare
}
