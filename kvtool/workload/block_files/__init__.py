"""Block traces in files: requests as ids of blocks, in columns, without any text."""
