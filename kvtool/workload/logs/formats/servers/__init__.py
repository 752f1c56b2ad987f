"""Lines that servers and container platforms write."""
