"""Routers as the command line names them."""

from __future__ import annotations

from dataclasses import replace

from kvtool.engine.engine_error import EngineError
from kvtool.engine.fleet.fleet_router import FleetRouter, RouterView
from kvtool.engine.fleet.routers.asked_router import AskedRouter, asked_router
from kvtool.errors import KvtoolError


def named_router(name: str, view: RouterView | None = None) -> AskedRouter:
    """The router of a name, with its settings; `view`: None is what its program knows. KvtoolError where there is none."""
    try:
        router = asked_router(name)
    except EngineError as error:
        raise KvtoolError(f"--routing: {error.message}", hint=error.hint) from error
    return router if view is None else replace(router, kind=replace(router.kind, view=view))


def made_router(router: AskedRouter, seed: int) -> FleetRouter:
    """One that routes; KvtoolError for a bound. `seed` is that of everything random in it."""
    if router.settings is None:
        raise KvtoolError(f"--routing: {router.name} is a bound, and no router", hint="--sweep routing shows it")
    return router.settings.router(seed)
