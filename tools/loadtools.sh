#!/usr/bin/env bash
# Makes a virtual environment in .cache/loadtools for each load tool, since they
# ask for different versions of the same packages, and a tokenizer for them.
# guidellm brings torch for CUDA: 6 GB. What cannot be had is said.
set -uo pipefail
cd "$(dirname "$0")/.."
wanted=$PWD/bench/loadtools/testdata
mkdir -p .cache/loadtools && cd .cache/loadtools || exit 1

# pythonFor prints a Python that is new enough: pythonFor 12 for 3.12 or later.
pythonFor() {
  for python in python3 python3.1{2,3,4} ~/.pyenv/versions/3.1[0-9]*/bin/python; do
    if "$python" -c "import sys, venv; sys.exit(sys.version_info < (3, $1))" 2>/dev/null; then
      echo "$python"
      return
    fi
  done
}

for tool in aiperf:10 guidellm:10 inference-perf:12; do
  name=${tool%:*} least=${tool#*:}
  cmp -s "$name/ok" "$wanted/$name.txt" && continue
  python=$(pythonFor "$least")
  if [ -n "$python" ] && "$python" -m venv --clear "$name" && "$name/bin/pip" install -q -r "$wanted/$name.txt"; then
    cp "$wanted/$name.txt" "$name/ok"
  else
    echo "loadtools: $name could not be installed; it needs Python 3.$least or later"
  fi
done
cmp -s tokenizer/ok "$wanted/tokenizer.py" && exit 0
aiperf/bin/python "$wanted/tokenizer.py" tokenizer && cp "$wanted/tokenizer.py" tokenizer/ok
