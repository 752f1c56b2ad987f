"""Whether each request of a session begins with the request before it."""
