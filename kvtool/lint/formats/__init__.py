"""Prompts as frameworks keep them in files: one module a format, `prompt_formats` lists them all."""
