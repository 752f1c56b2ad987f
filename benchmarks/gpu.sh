#!/usr/bin/env bash
# Everything that kvtool checks and times on a GPU, in one go; results go to benchmarks/results/ as JSON.
# Needs torch, triton, numpy, xxhash and safetensors (transformers for one peer); run it from anywhere: benchmarks/gpu.sh [--smoke]
# --smoke runs the same program on the CPU with tiny sizes, to see that it works.
set -euo pipefail
cd "$(dirname "$0")/.."
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}"
exec python3 benchmarks/gpu.py "$@"
