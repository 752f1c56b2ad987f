"""Runs of other engines and values of vLLM that were recorded, to compare with."""
