"""Causes of blocked tokens: what differs between a prompt and the earlier one that is most like it."""
