"""Two requests compared as what they are: tools, keys, documents, examples, history, values."""
