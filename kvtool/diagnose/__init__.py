"""Why two requests part: what differs, what it is called, and the tokens that it loses."""
