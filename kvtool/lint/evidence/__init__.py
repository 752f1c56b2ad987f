"""Evidence that a text is a prompt, and that its placeholders vary: words, calls and the text around."""
