"""Eviction policies over the blocks of whole requests, as in studies of caches, and the optimum above all of them."""
