"""What was predicted beside what a server did: request by request, and why where they differ."""
