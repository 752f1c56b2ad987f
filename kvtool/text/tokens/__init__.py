"""Text to token ids and back, with the place that each token comes from."""
