"""Account for tokens without a model: caches, the ledger of fates, and the data of charts."""
