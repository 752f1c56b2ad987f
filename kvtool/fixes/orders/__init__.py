"""Fixes that put lists, tools, documents and requests in one order."""
