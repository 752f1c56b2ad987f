"""The one way to a terminal: streams, colour, width, tables, numbers, progress, interrupts."""
