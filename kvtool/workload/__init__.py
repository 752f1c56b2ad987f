"""Requests to the engine: workload files, logs and prompts, turned into requests."""
