"""The decoder: its config and weights, its paged K/V, and the runner that computes steps with it."""

import os

from kvtool.engine.blas_threads import start_with_all

start_with_all()

# Read when torch is loaded, which modules of this package do: threads that wait for each other poll a thousand times, some
# microseconds, and then sleep. As they come, they spin, and where another program has one of the cores, each of a step's many waits
# then takes as long as that program may run at a time; where they sleep at once, each wait costs a call of the kernel.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ["OMP_WAIT_POLICY"] = "passive"
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
