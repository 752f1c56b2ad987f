"""Causes of lost hits of a running server, from its counters and its KV events."""
