"""Several engines after a router on one virtual clock, in blocks: waiting, hits, and the time of everything."""
