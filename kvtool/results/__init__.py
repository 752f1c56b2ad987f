"""Documents that are saved and read again: what JSON holds, and the one thing that every format is a view of."""
