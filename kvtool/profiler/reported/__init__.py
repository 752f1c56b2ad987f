"""What servers and providers reported of requests, and what they cost."""
