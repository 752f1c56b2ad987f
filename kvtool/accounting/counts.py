"""Counts of many requests, or of many groups, at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Counts = npt.NDArray[np.int64]
"""int64[n], one for each."""
