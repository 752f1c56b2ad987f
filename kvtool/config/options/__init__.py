"""The options that there are, each declared once with its default, its bounds and its help."""
