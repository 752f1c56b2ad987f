"""kvtool: prefix-cache profiling and prompt optimization."""

__version__ = "0.1.0"
