"""Many tasks of one kind, by one process or by several, here or on a Ray cluster: the results are the same, in the same order."""
