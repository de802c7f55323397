#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The hostile clients at full size on a machine that does nothing else: each
# attack once, judged strictly and with its figures, then all of them in random
# order beside clients that check every product. Leaves two reports, JSON.
# Run it every night; tools/test.sh has two minutes of it.
#
# Usage: tools/nightly_hostile.sh [MINUTES [FOLDER]]   (default: 30, ./hostile)
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

readonly MINUTES="${1:-30}"
readonly FOLDER="${2:-hostile}"
mkdir -p "$FOLDER" || exit

failed=0
tests/hostile/run.sh --strict "--report=$FOLDER/each.json" || failed=1
tests/hostile/run.sh "--minutes=$MINUTES" "--report=$FOLDER/random.json" ||
  failed=1
exit "$failed"
