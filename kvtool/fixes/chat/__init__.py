"""What a chat template does to prefixes, found by rendering, and how to mend it."""
