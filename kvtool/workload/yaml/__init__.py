"""Workload files: read, validated with places, and rendered into conversations."""
