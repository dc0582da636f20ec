#!/usr/bin/env bash
# usage: serve.sh DIR prefill|decode|plain PORT BOOTSTRAP_PORT [flags of SGLang's]    one SGLang, in the foreground
# A leg whose other one does not come is given up after 15 s (prefill) or 20 s
# (decode); left to itself SGLang waits for five minutes.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dir=$(cd "$1" && pwd) role=$2 port=$3 bootstrap=$4
shift 4
export PATH=$dir/sglang/bin:$PATH PYTHONPATH=$here/stubs HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 OMP_NUM_THREADS=1
export SGLANG_USE_CPU_ENGINE=1 SGLANG_IS_FLASHINFER_AVAILABLE=false SGLANG_HOST_IP=127.0.0.1 HOST_IP=127.0.0.1 MC_FORCE_TCP=1
export SGLANG_DISAGGREGATION_BOOTSTRAP_TIMEOUT=15 SGLANG_DISAGGREGATION_WAITING_TIMEOUT=20
how=(--disaggregation-mode "$role" --disaggregation-transfer-backend mooncake_tcp --disaggregation-bootstrap-port "$bootstrap")
case $role in
prefill) ;;
decode) how+=(--disaggregation-decode-retraction-backup none) ;;
plain) how=(--sleep-on-idle) ;;
*) echo "role $role: want prefill, decode or plain" >&2; exit 2 ;;
esac
exec python -W ignore -m sglang.launch_server --model-path "$dir/model" --served-model-name smollm2 --host 127.0.0.1 --port "$port" \
  --device cpu --attention-backend torch_native --sampling-backend pytorch --cuda-graph-backend-decode disabled --cuda-graph-backend-prefill disabled \
  --disable-overlap-schedule --context-length 2048 --max-total-tokens 8192 --max-running-requests 16 --dtype bfloat16 --enable-metrics \
  --grammar-backend none --log-level info --skip-server-warmup "${how[@]}" "$@"
