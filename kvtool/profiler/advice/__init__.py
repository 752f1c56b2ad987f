"""Fixes that are tried by running again; what wins is kept and told."""
