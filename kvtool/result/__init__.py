"""Results as data: the typed form of what kvtool writes as JSON, and the one thing that every format is a view of."""
