"""Who answers the requests of a run: the embedded engine, a stand-in for it, an LRU list, or a cache by other rules."""
