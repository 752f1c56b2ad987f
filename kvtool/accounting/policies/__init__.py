"""Eviction policies over the blocks of whole requests, as studies of caches have them, and the optimum that none of them passes."""
