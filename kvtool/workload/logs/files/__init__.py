"""Files of logs: which are read, in which order, and their records one after another."""
