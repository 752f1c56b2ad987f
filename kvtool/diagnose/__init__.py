"""Causes of differences between two requests: what differs, how it is named, and the tokens that it loses."""
