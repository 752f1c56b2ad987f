"""What is asked of the engine: workload files, logs and prompts, turned into requests."""
