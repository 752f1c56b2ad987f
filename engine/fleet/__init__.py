"""Several engines behind a router on one virtual clock, in blocks: who waits, who hits, and how long everything takes."""
