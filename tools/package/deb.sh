#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Makes qgemm_VERSION-REVISION_ARCHITECTURE.deb from binaries that
# --config=portable linked: server, tools, unit, configuration and documents.
#
# Usage: tools/package/deb.sh BINARIES OUT [REVISION]
# BINARIES holds qgemm_server, qgemm and qgemm_loadtest; REVISION is 1 by default.
set -euo pipefail

[ "$#" -ge 2 ] || {
  echo "usage: tools/package/deb.sh BINARIES OUT [REVISION]" >&2
  exit 2
}
BINARIES="$(realpath "$1")"
mkdir -p "$2"
OUT="$(realpath "$2")"
readonly BINARIES OUT REVISION="${3:-1}"
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
WORK="$(mktemp -d)"
readonly WORK ROOT="$WORK/root"
trap 'rm -rf "$WORK"' EXIT

VERSION="$(sed -n 's/.*kVersion\[\] = "\(.*\)";/\1/p' base/version.h)-$REVISION"
ARCHITECTURE="$(dpkg --print-architecture)"
readonly VERSION ARCHITECTURE
readonly PROGRAMS=(qgemm_server qgemm qgemm_loadtest)
readonly DOCUMENTS=(docs/deployment.md docs/operations.md docs/metrics.md SECURITY.md)

install_programs() {
  local program completions="$ROOT/usr/share/bash-completion/completions"
  mkdir -p "$completions"
  for program in "${PROGRAMS[@]}"; do
    install -D -m 755 "$BINARIES/$program" "$ROOT/usr/bin/$program"
    strip --strip-all "$ROOT/usr/bin/$program"
    "$BINARIES/$program" --completion=bash >"$completions/$program"
  done
}

install_service() {
  install -D -m 644 ops/systemd/qgemm.service \
    "$ROOT/usr/lib/systemd/system/qgemm.service"
  install -D -m 644 ops/systemd/qgemm.sysusers \
    "$ROOT/usr/lib/sysusers.d/qgemm.conf"
  install -D -m 644 ops/systemd/qgemm_server.toml \
    "$ROOT/etc/qgemm/qgemm_server.toml"
}

install_documents() {
  local doc="$ROOT/usr/share/doc/qgemm" folder
  install -D -m 644 -t "$doc" "${DOCUMENTS[@]}"
  install -m 644 LICENSE "$doc/copyright"
  install -D -m 644 -t "$ROOT/usr/share/qgemm/proto/qgemm/v1" \
    proto/qgemm/v1/qgemm.proto proto/qgemm/v1/program.proto
  mkdir "$doc/examples"
  cp -r ops/haproxy.cfg ops/nginx.conf ops/prometheus.yml ops/rules.yml \
    ops/dashboard.json ops/kubernetes "$doc/examples/"
  for folder in "$doc" "$ROOT/usr/share"; do chmod -R u=rwX,go=rX "$folder"; done
}

# Prints the packages that have the programs' libraries.
dependencies() {
  mkdir -p "$WORK/debian"
  touch "$WORK/debian/control"
  (cd "$WORK" && dpkg-shlibdeps -O "${PROGRAMS[@]/#/root/usr/bin/}" 2>/dev/null) |
    sed -n 's/^shlibs:Depends=//p'
}

write_control() {
  local needs script
  needs="$(dependencies)"
  [ -n "$needs" ] || {
    echo "deb: dpkg-shlibdeps found no dependencies" >&2
    return 1
  }
  mkdir "$ROOT/DEBIAN"
  sed -e "s|@VERSION@|$VERSION|" -e "s|@ARCHITECTURE@|$ARCHITECTURE|" \
    -e "s|@DEPENDS@|$needs|" \
    -e "s|@KIB@|$(du -sk "$ROOT" | cut -f1)|" \
    tools/package/debian/control.in >"$ROOT/DEBIAN/control"
  echo /etc/qgemm/qgemm_server.toml >"$ROOT/DEBIAN/conffiles"
  for script in postinst prerm postrm; do
    install -m 755 "tools/package/debian/$script" "$ROOT/DEBIAN/$script"
  done
}

umask 022
install_programs
install_service
install_documents
write_control
package="$OUT/qgemm_${VERSION}_$ARCHITECTURE.deb"
dpkg-deb --root-owner-group -Zxz -z1 --build "$ROOT" "$package" >/dev/null
echo "package: $package: $(stat -c %s "$package") bytes"
