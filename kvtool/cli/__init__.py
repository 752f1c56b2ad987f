"""The command line: thin, and cheap to import."""
