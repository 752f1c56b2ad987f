"""Formats of logs of one tool or family each: a module for each, imported when the first such record or file is read."""
