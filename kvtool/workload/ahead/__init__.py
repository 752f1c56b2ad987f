"""A second process reads a log and makes its prompts, while the first one accounts for them."""
