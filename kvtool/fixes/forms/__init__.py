"""Fixes that write one text in one form for all requests."""
