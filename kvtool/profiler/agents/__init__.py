"""The probe of an agent: the program as it is, against a stub of its provider on loopback."""
