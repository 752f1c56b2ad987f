"""One module or folder for each command."""
