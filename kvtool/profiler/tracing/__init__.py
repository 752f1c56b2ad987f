"""Logs become block traces: file by file, without shared state, and anonymised traces for other tools."""
