"""One record of a log: which format it has, and the requests, usage and context that it holds."""
