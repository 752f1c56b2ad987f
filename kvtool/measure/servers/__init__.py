"""Beside a live server: what it says of itself, answers, counts and publishes; what was recorded of one is read the same way."""
