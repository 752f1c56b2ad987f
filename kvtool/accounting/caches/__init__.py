"""Caches that are not the engine's: LRU of blocks, replicas, time to live, providers."""
