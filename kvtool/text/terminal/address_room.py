"""Return whether the process may have as much memory as its libraries take while they are imported."""

from __future__ import annotations

_LEAST = 384 << 20
"""Bytes of address space. With half of that numpy's BLAS never comes back from being imported: it tries again and again."""


def room_refused() -> str | None:
    """Why the address space that the process may have is too little; None where it has no limit or a large one."""
    try:
        import resource
    except ImportError:  # Windows knows no such limit
        return None
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY or limit >= _LEAST:
        return None
    return f"the memory limit (ulimit -v) is {limit >> 20} MiB; kvtool needs {_LEAST >> 20} MiB"
