"""With how many threads the libraries of linear algebra start.

numpy starts OpenBLAS with one thread for each core while it is imported, and they spin for work that most commands never have: a
third of what the import of numpy costs on two cores, more on more. torch's OpenBLAS, where it has one, needs them. This default is
read when either is loaded; what the user says (`OPENBLAS_NUM_THREADS`, `OMP_NUM_THREADS`) goes before it."""

import os

_DEFAULT = "OPENBLAS_DEFAULT_NUM_THREADS"


def start_with_one() -> None:
    """From now on a library starts with one thread, in child processes, too."""
    os.environ[_DEFAULT] = "1"


def start_with_all() -> None:
    """From now on a library starts with a thread for each core."""
    os.environ.pop(_DEFAULT, None)
