"""Blocks of a report as data: a file a subject; `order` lists those of a profile, and three renderers show them."""
