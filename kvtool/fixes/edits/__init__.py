"""A fix as edits of the user's own files, and the files written whole or not at all."""
