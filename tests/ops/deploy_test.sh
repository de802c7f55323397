#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Checks the unit, the manifests and the proxies' files of ops/ without running
# them: exposure by systemd-analyze, rendering by kubectl, schemas of three versions of
# Kubernetes, HAProxy's and nginx's own checks, flags that the server has. Ends with
# "N passed, N failed".
#
# Usage: tests/ops/deploy_test.sh [SERVER_BINARY]
set -euo pipefail

# shellcheck source=tests/support/python_suite.sh
source "$(dirname "${BASH_SOURCE[0]}")/../support/python_suite.sh"
cd "$ROOT"

readonly VALIDATE="${QGEMM_CACHE_DIR:-${HOME:-/root}/.cache/qgemm}/deploy/bin/kubernetes-validate"
readonly UNIT=ops/systemd/qgemm.service
readonly KUBERNETES_VERSIONS=(1.28 1.32 1.37)
WORK="$(mktemp -d)"
readonly WORK
trap 'rm -rf "$WORK"' EXIT
# shellcheck source=tests/support/checks.sh
source tests/support/checks.sh

fails() { ! "$@"; }

# 20 is an exposure of 2.0, the bound of "OK".
is_confined() {
  systemd-analyze security --offline=true --threshold=20 "$1"
}

render() { kubectl kustomize "$1" >"$2"; }
validates() { "$VALIDATE" -k "$1" --strict --no-warn "$2"; }

# The filter of requests has one meaning in both files.
same_filter() {
  diff <(grep -E '^    (acl|http-request) ' ops/haproxy.cfg) \
    <(grep -E '^    (acl|http-request) ' ops/kubernetes/haproxy.cfg |
      grep -vE 'ssl_c_s_dn|/livez|deny_status 404$')
}

haproxy_accepts() {
  sed "s|/etc/haproxy/tls|$WORK|g" "$1" >"$WORK/haproxy.cfg"
  haproxy -c -f "$WORK/haproxy.cfg"
}

nginx_accepts() {
  nginx -t -c "$ROOT/ops/nginx.conf" -g "pid $WORK/pid; error_log $WORK/error;"
}

# Every name of a configuration file, those in comments too, is a flag.
flags_exist() {
  local name
  sed -nE 's/^(# )?([a-z_]+) = .*/\2/p' "$1" | while read -r name; do
    grep -qE -- "^  --$name\\b" "$WORK/help" || echo "no flag --$name"
  done | fails grep .
}

# Every sh block of the document beside those that deb_test.sh runs.
documented_commands_run() {
  sed -n '/^### The sandbox/,$p' docs/deployment.md |
    awk '/^```sh$/ { inside = 1; next } /^```$/ { inside = 0 } inside' \
      >"$WORK/commands.sh"
  [ "$(wc -l <"$WORK/commands.sh")" -ge 2 ] && bash -euxo pipefail "$WORK/commands.sh"
}

tools/setup.sh deploy
find_program //server:qgemm_server "$@"
"$program" --help >"$WORK/help"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes \
  -subj /CN=test -days 2 -keyout "$WORK/tls.key" -out "$WORK/tls.crt" 2>/dev/null
cp "$WORK/tls.crt" "$WORK/ca.crt"

check "the unit is OK for systemd-analyze" is_confined "$UNIT"
grep -v '^SystemCallFilter=\|^CapabilityBoundingSet=' "$UNIT" >"$WORK/weak.service"
check "a weaker unit is not" fails is_confined "$WORK/weak.service"
check "kubectl renders the base" render ops/kubernetes "$WORK/base.yaml"
for version in "${KUBERNETES_VERSIONS[@]}"; do
  check "the base is valid for Kubernetes $version" \
    validates "$version" "$WORK/base.yaml"
done
sed 's/minReadySeconds: /minReadySecond: /' "$WORK/base.yaml" >"$WORK/wrong.yaml"
check "a wrong field is found" fails validates 1.32 "$WORK/wrong.yaml"
for file in ops/haproxy.cfg ops/kubernetes/haproxy.cfg ops/kubernetes/status.cfg; do
  check "HAProxy accepts $file" haproxy_accepts "$file"
done
check "nginx accepts ops/nginx.conf" nginx_accepts
check "both files of HAProxy filter alike" same_filter
for file in ops/systemd/qgemm_server.toml ops/kubernetes/qgemm_server.toml; do
  check "the server has the flags of $file" flags_exist "$file"
done
check "docs/deployment.md: its commands run" documented_commands_run
printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
