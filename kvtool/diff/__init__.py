"""Two prompts or many, side by side."""
