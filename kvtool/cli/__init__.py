"""The command line: one file a command with its options, thin and cheap to import."""
