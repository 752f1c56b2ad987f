"""The extra `engine`: torch and what belongs to it, which forward passes need and nothing else does."""

from __future__ import annotations

from importlib import import_module

from kvtool.errors import INSTALL_ENGINE, INSTALL_LIVE, NotAvailableError
from kvtool.results.run_times import Measured

_LIVE = ("httpx", "prometheus_client", "msgspec")
_REINSTALL = "pip install --force-reinstall 'kvtool[engine]'"
_NEEDED = ("torch", "safetensors")
_MISSING = "is not installed"
_SHORT = 120  # characters of an error that a message quotes


def need_live(what: str) -> None:
    """Raise NotAvailableError where a package of the extra is not installed, without which there is no `what`."""
    for name in _LIVE:
        try:
            import_module(name)
        except ModuleNotFoundError as error:
            raise NotAvailableError(f"{what} needs {name}, which is not installed", hint=INSTALL_LIVE) from error


def need_engine(what: str) -> None:
    """Raise NotAvailableError where torch, without which there is no `what`, is not installed or cannot be imported."""
    why, command = _lack()
    if why:
        raise NotAvailableError(f"{what} needs torch, which {why}", hint=command)


def not_measured() -> Measured | None:
    """Return a measurement that says how to get one, where torch is not installed or cannot be imported; else None."""
    why, command = _lack()
    if not why:
        return None
    reason = command if why == _MISSING else f"torch {why}: {command}"
    return Measured(
        on=None,
        off=None,
        requests=0,
        prompt_tokens=0,
        hit_tokens=0,
        complete=False,
        reason=reason,
        exact=False,
        audit=None,
        kv_cache_dtype_error=None,
        device="none",
        kernels="",
        shortfall="",
        too_large_requests=0,
    )


def _lack() -> tuple[str, str]:
    """Return what is wrong with torch and the command that helps; empty texts where it can be imported, which takes seconds."""
    try:
        for name in _NEEDED:
            import_module(name)
    except ModuleNotFoundError as error:
        if error.name in _NEEDED:
            return _MISSING, INSTALL_ENGINE
        return _broken(error)
    except Exception as error:  # a broken build raises what it likes: OSError for a library, RuntimeError for a version
        return _broken(error)
    return "", ""


def _broken(error: Exception) -> tuple[str, str]:
    first = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return f"cannot be imported ({first[:_SHORT]})", _REINSTALL
