"""Measuring the kernels and the engine: imports torch, triton, numpy and the engine only, so that it runs from a bare checkout."""
