"""Predictions beside what a server did: request by request, and why they differ."""
