"""Files of a folder: those that are read, those that code uses, and a cache of their results."""
