# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# What the demo reads out of the tools' JSON and .npy files, with nothing but
# the shell, sed, od and awk. Sourced by run.sh.

# json_value FILE KEY: the number or word of the first such key.
json_value() {
  local value
  value="$(sed -n "s/^ *\"$2\": *\"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}$/\1/p" \
    "$1" | head -n 1)"
  if [ -z "$value" ]; then
    echo "demo: no \"$2\" in $1" >&2
    return 1
  fi
  printf '%s\n' "$value"
}

# sum NUMBER...
sum() { printf '%s\n' "$@" | awk '{ total += $1 } END { printf "%.0f", total }'; }

# largest NUMBER...
largest() {
  printf '%s\n' "$@" | awk '$1 > top { top = $1 } END { printf "%.2g", top }'
}

# npy_floats FILE: the values of an fp32 .npy, one a line.
npy_floats() {
  local header_bytes
  header_bytes="$(od -An -tu2 -j8 -N2 "$1" | tr -d ' ')"
  od -An -v -tf4 -w4 -j"$((10 + header_bytes))" "$1"
}

# sqnr_db EXACT.npy... -- OTHER.npy...: the ratio of signal to error, in dB.
sqnr_db() {
  local exact=()
  while [ "$1" != -- ]; do
    exact+=("$1")
    shift
  done
  shift
  paste <(for file in "${exact[@]}"; do npy_floats "$file"; done) \
    <(for file in "$@"; do npy_floats "$file"; done) |
    awk 'NF != 2 { exit 1 }
      { signal += $1 * $1; error += ($1 - $2) * ($1 - $2) }
      END {
        if (error == 0) print "exact"
        else printf "%.1f", 10 * log(signal / error) / log(10)
      }'
}
