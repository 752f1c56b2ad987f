"""KV001 and KV002: comments that ignore findings."""
