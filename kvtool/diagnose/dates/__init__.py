"""Dates and times as people of all languages write them."""
