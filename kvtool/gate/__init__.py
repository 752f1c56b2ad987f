"""Gates: what is demanded of a workload, how it fares, and the one verdict that decides exit code, last line and every format."""
