#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Makes qgemm_VERSION-REVISION_ARCHITECTURE.deb from binaries that
# --config=portable linked: server, tools, unit, configuration and documents. With a
# folder of tools/install.sh also libqgemm-dev, the client library.
#
# Usage: tools/package/deb.sh BINARIES OUT [REVISION [PREFIX]]
# BINARIES holds qgemm_server, qgemm_holder, qgemm and qgemm_loadtest; REVISION is 1
# by default.
set -euo pipefail

[ "$#" -ge 2 ] || {
  echo "usage: tools/package/deb.sh BINARIES OUT [REVISION [PREFIX]]" >&2
  exit 2
}
BINARIES="$(realpath "$1")"
mkdir -p "$2"
OUT="$(realpath "$2")"
PREFIX="${4:+$(realpath "$4")}"
readonly BINARIES OUT PREFIX REVISION="${3:-1}"
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
WORK="$(mktemp -d)"
readonly WORK ROOT="$WORK/root" DEV_ROOT="$WORK/dev"
trap 'rm -rf "$WORK"' EXIT

VERSION="$(sed -n 's/.*kVersion\[\] = "\(.*\)";/\1/p' base/version.h)-$REVISION"
ARCHITECTURE="$(dpkg --print-architecture)"
readonly VERSION ARCHITECTURE
readonly PROGRAMS=(qgemm_server qgemm_holder qgemm qgemm_loadtest)
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

# write_control ROOT NAME NEEDS
write_control() {
  mkdir "$1/DEBIAN"
  sed -e "s|@VERSION@|$VERSION|" -e "s|@ARCHITECTURE@|$ARCHITECTURE|" \
    -e "s|@DEPENDS@|$3|" -e "s|@KIB@|$(du -sk "$1" | cut -f1)|" \
    "tools/package/debian/$2.control.in" >"$1/DEBIAN/control"
}

write_scripts() {
  local script
  echo /etc/qgemm/qgemm_server.toml >"$ROOT/DEBIAN/conffiles"
  for script in postinst prerm postrm; do
    install -m 755 "tools/package/debian/$script" "$ROOT/DEBIAN/$script"
  done
}

# build_package ROOT NAME
build_package() {
  local package="$OUT/$2_${VERSION}_$ARCHITECTURE.deb"
  dpkg-deb --root-owner-group -Zxz -z1 --build "$1" "$package" >/dev/null
  echo "package: $package: $(stat -c %s "$package") bytes"
}

make_server_package() {
  local needs
  install_programs
  install_service
  install_documents
  needs="$(dependencies)"
  [ -n "$needs" ] || {
    echo "deb: dpkg-shlibdeps found no dependencies" >&2
    return 1
  }
  write_control "$ROOT" qgemm "$needs"
  write_scripts
  build_package "$ROOT" qgemm
}

# The tree of install.sh finds its own place, but for pkg-config's file.
make_client_package() {
  mkdir -p "$DEV_ROOT/usr/include" "$DEV_ROOT/usr/lib/pkgconfig" \
    "$DEV_ROOT/usr/lib/cmake"
  cp -r "$PREFIX/include/qgemm" "$DEV_ROOT/usr/include/"
  cp -r "$PREFIX/lib/cmake/qgemm" "$DEV_ROOT/usr/lib/cmake/"
  install -m 644 "$PREFIX/lib/libqgemm_client.a" "$DEV_ROOT/usr/lib/"
  sed 's|^prefix=.*|prefix=/usr|' "$PREFIX/lib/pkgconfig/qgemm.pc" \
    >"$DEV_ROOT/usr/lib/pkgconfig/qgemm.pc"
  install -D -m 644 LICENSE "$DEV_ROOT/usr/share/doc/libqgemm-dev/copyright"
  write_control "$DEV_ROOT" libqgemm-dev ""
  build_package "$DEV_ROOT" libqgemm-dev
}

umask 022
make_server_package
if [ -n "$PREFIX" ]; then make_client_package; fi
