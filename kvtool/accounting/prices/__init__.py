"""Prices of hosted models by day, and bills."""
