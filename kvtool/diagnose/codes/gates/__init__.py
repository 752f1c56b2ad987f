"""KV401 to KV410: gates that fail."""
