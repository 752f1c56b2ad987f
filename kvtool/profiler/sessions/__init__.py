"""Sessions of coding agents: their folders on this machine, and the sums of each session."""
