"""What kvtool finds on this machine, and what it lacks."""
