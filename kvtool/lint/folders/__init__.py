"""Which files of a folder are read, which are used, and what was read of them before."""
