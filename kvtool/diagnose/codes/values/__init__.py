"""KV101 to KV107: values and optional blocks that change from request to request."""
