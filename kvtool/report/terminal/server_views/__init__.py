"""The terminal views of servers: replay, watch, bench."""
