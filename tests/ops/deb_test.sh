#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs, starts, upgrades, removes and purges the package on a clean Debian 12
# that runs its own systemd, in a container without a network. Needs root. Ends
# with "N passed, N failed".
#
# Usage: tests/ops/deb_test.sh [BINARIES]
# BINARIES is a folder of portable binaries, such as dist/qgemm-bundle/bin;
# without it they are built. The clean root is kept in ~/.cache/qgemm.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

readonly CACHE_DIR="${QGEMM_CACHE_DIR:-${HOME:-/root}/.cache/qgemm}"
readonly CLEAN_ROOT="$CACHE_DIR/debian12-root.tar"
# Init, and what the package depends on beside it.
readonly CLEAN_PACKAGES=systemd-sysv,dbus,libprometheus-cpp-core1.0
readonly SERVER=unix:/run/qgemm/socket
readonly NOBODY=65534
readonly TARGETS=(//server:qgemm_server //server/keep:qgemm_holder //cli:qgemm
  //loadtest:qgemm_loadtest)
WORK="$(mktemp -d)"
readonly WORK ROOT="$WORK/root"
container=""
# shellcheck source=tests/support/checks.sh
source tests/support/checks.sh

stop_container() {
  [ -z "$container" ] || kill "$container" 2>/dev/null || true
  wait
  rm -rf "$WORK"
}
trap stop_container EXIT

build_binaries() {
  local target path bin
  tools/bazel.sh build --noshow_progress --config=portable "${TARGETS[@]}"
  bin="$(tools/bazel.sh info --config=portable bazel-bin 2>/dev/null)"
  for target in "${TARGETS[@]}"; do
    path="${target#//}"
    install -D -m 755 "$bin/${path/://}" "$WORK/bin/${path##*:}"
  done
}

# Boots the root; returns when the system is up.
boot() {
  systemd-nspawn --quiet --directory="$ROOT" --boot --register=no --keep-unit \
    --private-network --link-journal=no --bind-ro="$WORK/debs:/debs" \
    </dev/null >"$WORK/boot.log" 2>&1 &
  container=$!
  wait_for inside systemctl is-system-running --wait --quiet
}

# inside COMMAND...: runs it in the container, as root.
inside() {
  nsenter --target "$(pgrep --parent "$container" | head -n 1)" --all -- "$@" \
    </dev/null
}

# wait_for COMMAND...: until it succeeds; fails after half a minute of trying.
wait_for() {
  local end=$((SECONDS + 30))
  until "$@" 2>/dev/null; do
    [ "$SECONDS" -lt "$end" ] || return 1
    sleep 0.2
  done
}

fails() { ! "$@"; }
property() { inside systemctl show --property="$1" --value qgemm.service; }
property_is() { [ "$(property "$1")" = "$2" ]; }
is_active() { inside systemctl is-active --quiet qgemm.service; }
is_enabled() { inside systemctl is-enabled --quiet qgemm.service; }
install_deb() {
  inside env DEBIAN_FRONTEND=noninteractive apt-get install -y "${1#"$WORK"}"
}
# as_user GROUPS COMMAND...: as a user who owns nothing.
as_user() {
  local groups="$1"
  shift
  inside setpriv "--reuid=$NOBODY" "--regid=$NOBODY" "$groups" "$@"
}
group_id() { inside getent group qgemm | cut -d: -f3; }

# The server's process has no rights: no capability, a filter of system calls.
process_is_confined() {
  local status
  status="$(inside cat "/proc/$(property MainPID)/status")"
  grep -q '^NoNewPrivs:[[:space:]]*1$' <<<"$status" &&
    grep -q '^Seccomp:[[:space:]]*2$' <<<"$status" &&
    grep -q '^CapBnd:[[:space:]]*0*$' <<<"$status" &&
    ! grep -q '^Uid:[[:space:]]*0' <<<"$status"
}

has_no_core_dumps() {
  inside grep -q '^Max core file size *0 *0 ' "/proc/$(property MainPID)/limits"
}

multiplies() {
  inside qgemm_loadtest "--server=$SERVER" --synthetic=512x512 --concurrency=2 \
    --duration=300ms --warmup=50ms --verify=sample --max_lag=1h
}

# A server that stands still sends no more pings.
watchdog_restarts() {
  inside mkdir -p /etc/systemd/system/qgemm.service.d
  inside sh -c 'printf "[Service]\nWatchdogSec=1s\nRestartSec=100ms\n" \
    >/etc/systemd/system/qgemm.service.d/test.conf'
  inside systemctl daemon-reload
  inside systemctl restart qgemm.service
  inside systemctl kill --signal=STOP qgemm.service
  wait_for restarted && wait_for is_active &&
    inside rm -r /etc/systemd/system/qgemm.service.d &&
    inside systemctl daemon-reload
}
restarted() { [ "$(property NRestarts)" -ge 1 ]; }
journal_has() {
  inside journalctl --unit=qgemm.service >"$WORK/journal" &&
    grep -q "$1" "$WORK/journal"
}

# With the lines for other hosts that the configuration has as comments.
serves_tls() {
  local tls="$ROOT/etc/qgemm/tls"
  mkdir -p "$tls"
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes \
    -subj /CN=test -days 2 -keyout "$tls/server.key" -out "$tls/server.pem"
  cp "$tls/server.pem" "$tls/clients.pem"
  echo '{"clients": [{"id": "test", "match": [{"cn": "test"}], "rights": ["compute"],
    "names": [""]}]}' >"$ROOT/etc/qgemm/access.json"
  sed -i -E -e '/^listen/d' -e 's/^# (listen = .*tls:|tls_|access_table)/\1/' \
    "$ROOT/etc/qgemm/qgemm_server.toml"
  inside chown -R qgemm /etc/qgemm/tls
  inside systemctl restart qgemm.service
  nsenter --target "$(pgrep --parent "$container" | head -n 1)" --net -- \
    openssl s_client -connect 127.0.0.1:50051 -alpn h2 -cert "$tls/server.pem" \
    -key "$tls/server.key" -CAfile "$tls/server.pem" -verify_return_error \
    </dev/null >"$WORK/handshake" 2>&1
  grep 'ALPN protocol: h2' "$WORK/handshake"
}

# The sh blocks of the document's first section, in a folder with the package.
documented_commands_run() {
  sed -n '/^## One host/,/^### The sandbox/p' docs/deployment.md |
    awk '/^```sh$/ { inside = 1; next } /^```$/ { inside = 0 } inside' \
      >"$WORK/debs/commands.sh"
  [ "$(wc -l <"$WORK/debs/commands.sh")" -ge 4 ] &&
    inside sh -c 'cd /debs/2 && bash -euxo pipefail ../commands.sh'
}

[ "$(id -u)" -eq 0 ] || {
  echo "deb_test: needs root, for a container" >&2
  exit 1
}
tools/setup.sh deploy
mkdir -p "$WORK/bin" "$ROOT" "$CACHE_DIR"
if [ "$#" -ge 1 ]; then
  cp -t "$WORK/bin" "$1"/{qgemm_server,qgemm_holder,qgemm,qgemm_loadtest}
else
  build_binaries
fi
for revision in 1 2; do
  tools/package/deb.sh "$WORK/bin" "$WORK/debs/$revision" "$revision"
done
first="$(ls "$WORK"/debs/1/*.deb)"
second="$(ls "$WORK"/debs/2/*.deb)"
[ -s "$CLEAN_ROOT" ] || {
  mmdebstrap --quiet --format=tar --variant=minbase "--include=$CLEAN_PACKAGES" \
    bookworm "$CLEAN_ROOT.part"
  mv "$CLEAN_ROOT.part" "$CLEAN_ROOT"
}
tar -C "$ROOT" -xf "$CLEAN_ROOT"
boot || {
  echo "deb_test: the container does not boot" >&2
  tail -n 20 "$WORK/boot.log"
  exit 1
}

check "apt installs it" install_deb "$first"
check "installing enables nothing" fails is_enabled
check "installing starts nothing" fails is_active
check "it starts" inside systemctl start qgemm.service
check "systemd knows that it serves" property_is StatusText "serving on $SERVER"
check "it runs as the user qgemm, without rights" process_is_confined
check "it leaves no core dumps" has_no_core_dumps
check "it multiplies" multiplies
check "/readyz answers" inside bash -c \
  'exec 3<>/dev/tcp/127.0.0.1/9090; printf "GET /readyz HTTP/1.0\r\n\r\n" >&3
   grep -q "200 OK" <&3'
check "a member of the group may connect" as_user "--groups=$(group_id)" \
  qgemm info "--server=$SERVER"
check "others may not" fails as_user --clear-groups \
  qgemm info "--server=$SERVER" --connect_timeout=1s
check "the watchdog restarts it" watchdog_restarts
check "the journal says why" journal_has "Watchdog timeout"
inside sh -c 'echo "# mine" >>/etc/qgemm/qgemm_server.toml'
inside systemctl --quiet enable qgemm.service
before="$(property MainPID)"
check "an upgrade installs" install_deb "$second"
check "it serves after the upgrade" wait_for is_active
check "it is a new process" fails property_is MainPID "$before"
check "the upgrade leaves the configuration" \
  inside grep -q '^# mine' /etc/qgemm/qgemm_server.toml
check "the upgrade leaves it enabled" is_enabled
check "the old one has drained" journal_has '"event":"drained"'
check "it serves TLS inside its sandbox" serves_tls
inside rm -r /etc/qgemm/tls /etc/qgemm/access.json
check "it is removed" inside dpkg --remove qgemm
check "removing stops it" fails is_active
check "its unit is gone" fails inside systemctl cat qgemm.service
check "nothing starts it at boot" \
  fails inside test -L /etc/systemd/system/multi-user.target.wants/qgemm.service
check "its configuration stays" inside test -f /etc/qgemm/qgemm_server.toml
check "it is purged" inside dpkg --purge qgemm
check "nothing of it is left" fails inside sh -c \
  'find / -xdev -iname "*qgemm*" -not -path "/debs/*" -not -path "/proc/*" \
   -not -path "/var/log/*" -not -path "/var/cache/*" | grep .'
check "docs/deployment.md: its commands run" documented_commands_run
check "no unit failed" inside sh -c '! systemctl --failed --quiet | grep .'
printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
