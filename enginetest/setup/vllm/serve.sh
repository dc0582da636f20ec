#!/usr/bin/env bash
# usage: serve.sh DIR prefill|decode PORT SIDE_CHANNEL_PORT [flags of vLLM's]    one vLLM, in the foreground
# POLICY: its kv_load_failure_policy, fail unless told.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dir=$(cd "$1" && pwd) role=$2 port=$3 side=$4
shift 4
export PATH=$dir/vllm/bin:$PATH PYTHONPATH=$here/pyfix HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1
export VLLM_CPU_KVCACHE_SPACE=1 OMP_NUM_THREADS=1 VLLM_CPU_OMP_THREADS_BIND=nobind
export NIXL_PTHR_DELAY_US=1000 UCX_TLS=tcp,self VLLM_NIXL_SIDE_CHANNEL_HOST=127.0.0.1 VLLM_NIXL_SIDE_CHANNEL_PORT=$side
case $role in prefill) kv=kv_producer ;; decode) kv=kv_consumer ;; *) echo "role $role: want prefill or decode" >&2; exit 2 ;; esac
# The engine id is new with each start: a decode engine that knew the old one would fail for good.
exec vllm serve "$dir/model" --served-model-name smollm2 --host 127.0.0.1 --port "$port" \
  --dtype float32 --max-model-len 2048 --max-num-seqs 8 --enforce-eager --block-size 32 \
  --enable-auto-tool-choice --tool-call-parser hermes \
  --kv-transfer-config '{"kv_connector":"NixlConnector","kv_role":"'$kv'","kv_buffer_device":"cpu","engine_id":"'"$role-$port-$$-$(date +%s)"'","kv_load_failure_policy":"'"${POLICY:-fail}"'"}' "$@"
