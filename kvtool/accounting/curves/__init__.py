"""Hits of caches of every size, counted in one pass over the blocks of a workload."""
