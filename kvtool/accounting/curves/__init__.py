"""What caches of every size hit, counted in one pass over the blocks of a workload."""
