"""Markdown: a comment on a pull request."""
