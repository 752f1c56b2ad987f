"""Chat templates: what they do to prefixes, found by rendering, and how to mend it."""
