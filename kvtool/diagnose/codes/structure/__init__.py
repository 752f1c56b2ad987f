"""KV111 to KV143: order, characters and tokens, chat templates, and the history of a conversation."""
