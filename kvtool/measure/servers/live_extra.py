"""The extra `live`: what talks to a server and reads what it sends; nothing else needs it."""

from __future__ import annotations

from importlib import import_module

from kvtool.errors import INSTALL_LIVE, NotAvailableError

_NEEDED = ("httpx", "prometheus_client", "msgspec")


def need_live(what: str) -> None:
    """NotAvailableError where a package of the extra is not installed, without which there is no `what`."""
    for name in _NEEDED:
        try:
            import_module(name)
        except ModuleNotFoundError as error:
            raise NotAvailableError(f"{what} needs {name}, which is not installed", hint=INSTALL_LIVE) from error
