"""Characters: where each was written, templates, tokens, files with places, and safe output."""
