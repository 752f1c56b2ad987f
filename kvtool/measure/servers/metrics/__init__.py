"""What a server counts: its metrics read, and compared over time."""
