"""All options, each declared once with default, bounds, panel and help."""
