"""Blocks of the KV cache: free blocks, contents and names."""
