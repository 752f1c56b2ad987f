"""Logs, traces and prompt files, read as streams; a function for each format of a record."""
