"""The verdict on a running server: its causes of lost hits, with those of a log of its requests."""
