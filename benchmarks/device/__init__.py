"""What `benchmarks/gpu.py` checks and times on a device; needs torch, triton, numpy and the engine: a bare checkout will do."""
