"""Text files: read, decoded, parsed with a line and column for every value, and written whole."""
