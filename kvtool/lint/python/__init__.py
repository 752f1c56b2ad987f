"""Python files: what their code puts into prompts, read without running it."""
