"""Programs that measure; a package, so that no other `benchmarks` that is installed comes before it."""
