"""The terminal views of prompts side by side."""
