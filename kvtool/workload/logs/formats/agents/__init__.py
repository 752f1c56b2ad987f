"""Sessions of coding agents."""
