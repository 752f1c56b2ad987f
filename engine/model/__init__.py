"""The decoder: its config and weights, its paged K/V, and the runner that computes steps with it."""

import os

# Read when torch is loaded, which modules of this package do: threads that wait for each other sleep. As they come, they spin, and
# where another program has one of the cores, each of a step's many waits then takes as long as that program may run at a time.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
