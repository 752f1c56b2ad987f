"""Servers of a run's requests: the embedded engine, a replacement for it, an LRU list, or a cache by other rules."""
