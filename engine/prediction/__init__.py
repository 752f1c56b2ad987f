"""Predict the time of steps and the number of blocks on accelerators that are not present."""
