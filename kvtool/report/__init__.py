"""Views of documents: each format in a file, written from the result and nothing else."""
