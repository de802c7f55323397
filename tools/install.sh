#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds qgemm and installs it under a prefix:
#   bin/        qgemm_server, qgemm_holder, qgemm, qgemm_loadtest
#   include/qgemm/  the client library's headers, included as <qgemm/client.h>
#   lib/        libqgemm_client.a, pkgconfig/qgemm.pc, cmake/qgemm/
#   share/qgemm/    the protos, the demo's weights and scripts, the load test's
#                   scenarios
#
# Usage: tools/install.sh --prefix DIR
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

VERSION="$(sed -n 's/.*kVersion\[\] = "\(.*\)";/\1/p' base/version.h)"
readonly VERSION
[ -n "$VERSION" ] || {
  echo "install: base/version.h has no line with kVersion" >&2
  exit 1
}
readonly LIBRARY=//client:client
readonly BINARIES=(
  //server:qgemm_server //server/keep:qgemm_holder //cli:qgemm
  //loadtest:qgemm_loadtest
)

usage() {
  echo "usage: tools/install.sh --prefix DIR" >&2
  exit 2
}

prefix=""
while [ "$#" -gt 0 ]; do
  case "$1" in
    --prefix=*) prefix="${1#--prefix=}" ;;
    --prefix)
      [ "$#" -ge 2 ] || usage
      prefix="$2"
      shift
      ;;
    *) usage ;;
  esac
  shift
done
[ -n "$prefix" ] || usage
mkdir -p "$prefix"
prefix="$(cd "$prefix" && pwd)"

say() { printf 'install: %s\n' "$*"; }

# The labels of our own libraries behind the client, itself included; those
# of external repositories start with @.
client_libraries() {
  tools/bazel.sh query --noshow_progress "kind(cc_library, deps($LIBRARY))" \
    2>/dev/null | grep '^//' | grep -v '^//third_party/'
}

# //a/b:c -> a/b c
split_label() {
  local label="${1#//}"
  printf '%s %s\n' "${label%%:*}" "${label##*:}"
}

install_binaries() {
  local label folder name
  mkdir -p "$prefix/bin"
  for label in "${BINARIES[@]}"; do
    read -r folder name < <(split_label "$label")
    install -m 755 "$built/$folder/$name" "$prefix/bin/$name"
  done
}

# Merges the archives of every library behind the client into one.
install_archive() {
  local label folder name archive="$prefix/lib/libqgemm_client.a"
  mkdir -p "$prefix/lib"
  rm -f "$archive"
  {
    echo "create $archive"
    for label in "${libraries[@]}"; do
      read -r folder name < <(split_label "$label")
      if [ -f "$built/$folder/lib$name.a" ]; then
        echo "addlib $built/$folder/lib$name.a"
      fi
    done
    echo "save"
    echo "end"
  } | ar -M
}

# The installed path of a header of the tree below include/: public ones as they
# are included, those that they reach under qgemm/internal.
installed_header() {
  case "$1" in
    client/include/*) echo "${1#client/include/}" ;;
    *) echo "qgemm/internal/$1" ;;
  esac
}

# The public headers and those that they reach by #include, whose paths are
# rewritten, so that nothing lands outside include/qgemm.
install_headers() {
  local pending=(client/include/qgemm/*.h) header included target edits
  local -A seen=()
  rm -rf "$prefix/include/qgemm"
  while [ "${#pending[@]}" -gt 0 ]; do
    header="${pending[0]}"
    pending=("${pending[@]:1}")
    [ -z "${seen[$header]:-}" ] || continue
    seen[$header]=1
    edits=()
    while read -r included; do
      [ -f "$included" ] || continue
      pending+=("$included")
      edits+=(-e "s|^#include \"$included\"|#include \"$(installed_header "$included")\"|")
    done < <(sed -n 's/^#include "\([^"]*\)".*/\1/p' "$header")
    target="$prefix/include/$(installed_header "$header")"
    install -D -m 644 "$header" "$target"
    [ "${#edits[@]}" -eq 0 ] || sed -i "${edits[@]}" "$target"
  done
}

install_package_files() {
  local file target
  mkdir -p "$prefix/lib/pkgconfig" "$prefix/lib/cmake/qgemm"
  for file in qgemm.pc qgemmConfig.cmake qgemmConfigVersion.cmake; do
    target="$prefix/lib/cmake/qgemm/$file"
    [ "$file" != qgemm.pc ] || target="$prefix/lib/pkgconfig/$file"
    sed -e "s|@PREFIX@|$prefix|g" -e "s|@VERSION@|$VERSION|g" \
      "tools/install/$file.in" >"$target"
  done
}

install_demo() {
  install -D -m 644 demo/minilm_block.safetensors \
    "$prefix/share/qgemm/demo/minilm_block.safetensors"
  install -D -m 644 demo/README.md "$prefix/share/qgemm/demo/README.md"
  install -D -m 644 LICENSE "$prefix/share/qgemm/LICENSE"
  install -D -m 755 tools/demo.sh "$prefix/share/qgemm/tools/demo.sh"
  install -D -m 755 -t "$prefix/share/qgemm/tools/demo" \
    tools/demo/run.sh tools/demo/minilm.sh
  install -m 644 -t "$prefix/share/qgemm/tools/demo" tools/demo/lib.sh
  install -D -m 644 -t "$prefix/share/qgemm/tools/demo/minilm" \
    tools/demo/minilm/*.py
  install -D -m 644 -t "$prefix/share/qgemm/proto/qgemm/v1" \
    proto/qgemm/v1/program.proto proto/qgemm/v1/qgemm.proto
}

install_scenarios() {
  local share="$prefix/share/qgemm"
  install -D -m 755 tools/scenario.sh "$share/tools/scenario.sh"
  install -m 755 -t "$share/tools" tools/render_report.py tools/compare_reports.py
  install -m 644 -t "$share/tools" tools/report_*.py tools/report_page.html
  install -D -m 644 -t "$share/bench/scenarios" bench/scenarios/*.txt
}

tools/setup.sh build
mapfile -t libraries < <(client_libraries)
if [ "${#libraries[@]}" -eq 0 ]; then
  echo "install: the query for the libraries behind $LIBRARY found none" >&2
  exit 1
fi
say "building"
tools/bazel.sh build --noshow_progress "${BINARIES[@]}" "${libraries[@]}"
built="$(tools/bazel.sh info bazel-bin 2>/dev/null)"
install_binaries
install_archive
install_headers
install_package_files
install_demo
install_scenarios
say "installed qgemm $VERSION in $prefix"
