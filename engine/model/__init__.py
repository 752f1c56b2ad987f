"""The decoder: its config and weights, its paged K/V, and the runner that computes steps with it."""
