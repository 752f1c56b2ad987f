"""Blocks of the KV cache: which are free, what they hold, and how they are named."""
