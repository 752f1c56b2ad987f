"""Prompts as frameworks keep them in files; `prompt_formats` lists the formats."""
