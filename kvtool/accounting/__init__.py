"""Where tokens go without a model: caches, the ledger of fates, and what charts draw."""
