"""Every option: declared once, with its flag, variable and key; the configuration file, and who said each value."""
