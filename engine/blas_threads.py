"""Set the number of threads with which libraries of linear algebra start.

numpy starts OpenBLAS with one thread for each core at import, and they spin for work that most commands never have: a third of
numpy's import time on two cores, more on more. torch's OpenBLAS, where it has one, needs the threads. Both read this default when
they load; the user's `OPENBLAS_NUM_THREADS` or `OMP_NUM_THREADS` overrides it.
"""

import os

_DEFAULT = "OPENBLAS_DEFAULT_NUM_THREADS"


def start_with_one_thread() -> None:
    """Make libraries start with one thread from now on, in child processes, too."""
    os.environ[_DEFAULT] = "1"


def start_with_all() -> None:
    """Make libraries start with a thread for each core from now on."""
    os.environ.pop(_DEFAULT, None)
