"""KV201 to KV204: shared text that is not at the front, or too short for a block."""
