"""How long steps would take, and how many blocks there would be, on accelerators that are not here."""
