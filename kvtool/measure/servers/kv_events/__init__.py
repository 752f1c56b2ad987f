"""KV events that a server publishes: received within limits, read, and summed."""
