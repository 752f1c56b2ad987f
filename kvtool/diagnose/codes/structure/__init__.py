"""KV111 to KV144: order, characters and tokens, chat templates, and the history of a conversation."""
