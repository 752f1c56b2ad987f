"""The extra `ray`: what gives tasks to the machines of a cluster; nothing else needs it."""

from __future__ import annotations

from importlib.util import find_spec

from kvtool.errors import INSTALL_RAY, NotAvailableError


def need_ray(what: str) -> None:
    """NotAvailableError where ray, without which there is no `what`, is not installed. It is not imported: that starts threads."""
    if find_spec("ray") is None:
        raise NotAvailableError(f"{what} needs ray, which is not installed", hint=INSTALL_RAY)
