"""KV401 to KV411: gates that fail."""
