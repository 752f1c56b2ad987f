"""Measuring the engine for `kvtool bench`; what times kernels serves `benchmarks/device` too, needs torch and the engine only."""
