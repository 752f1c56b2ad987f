"""Predictions of step times and numbers of blocks for accelerators that are not here."""
