"""Hits, waits and costs of the same requests with other settings: each row is counted on the requests themselves."""
