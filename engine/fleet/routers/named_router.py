"""A router as the user names it, with changed settings: `sglang:share=0.5:poor=smallest-tree`."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from math import isfinite
from typing import Any, Literal, get_args, get_origin, get_type_hints

from kvtool.engine.engine_error import EngineError
from kvtool.engine.fleet.routers.known_routers import ROUTERS
from kvtool.engine.fleet.routers.router_kind import RouterKind, RouterSettings

_MOST = 1e12
"""Bound of a router's setting: no useful value is larger, and larger ones could overflow."""


@dataclass(frozen=True, slots=True)
class NamedRouter:
    """A router with its settings."""

    kind: RouterKind
    settings: RouterSettings | None
    """None: a bound."""
    name: str
    """Name with the settings that differ from the defaults."""


def asked_router(text: str) -> NamedRouter:
    """Parse the router's name and settings; EngineError for an unknown name, setting or value."""
    name, *changes = (part.strip() for part in text.split(":"))
    kind = ROUTERS.get(name)
    if kind is None:
        raise EngineError(f"unknown router {name[:40]!a}", hint=f"use one of {', '.join(ROUTERS)}")
    if not changes:
        return NamedRouter(kind, kind.settings, name)
    settings, values = kind.settings, dict[str, object]()
    hints = {} if settings is None else get_type_hints(type(settings))
    known = {} if settings is None else {field.name: hints[field.name] for field in fields(settings)}  # type: ignore[arg-type] # each is a dataclass
    for change in changes:
        key, equals, value = (part.strip() for part in change.partition("="))
        key = key.replace("-", "_")
        if not equals or key not in known:
            has = f"{name} has {', '.join(map(_shown, known))}" if known else f"{name} has no settings"
            raise EngineError(f"{name}: unknown setting {change[:40]!a}", hint=f"write NAME:SETTING=VALUE; {has}")
        values[key] = _value(f"{name}:{key}", value, known[key])
    assert settings is not None
    changed = replace(settings, **values)  # type: ignore[type-var] # each is a dataclass
    return NamedRouter(
        kind, changed, ":".join([name, *(f"{_shown(key)}={_words(value)}" for key, value in values.items())])
    )


def settings_of(settings: RouterSettings | None) -> dict[str, str]:
    """Return their values in words, by name."""
    if settings is None:
        return {}
    return {_shown(field.name): _words(getattr(settings, field.name)) for field in fields(settings)}  # type: ignore[arg-type] # a dataclass


def _shown(key: str) -> str:
    """Return the name of a setting as one writes it."""
    return key.replace("_", "-")


def _words(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _value(name: str, text: str, kind: Any) -> object:
    """Return the value of a setting; numbers are not below 0."""
    if get_origin(kind) is Literal:
        if text in get_args(kind):
            return text
        raise EngineError(f"{name}: {text[:40]!a} is not one of {', '.join(get_args(kind))}")
    if kind is bool:
        if text in ("on", "off"):
            return text == "on"
        raise EngineError(f"{name}: {text[:40]!a} is neither on nor off")
    try:
        number = kind(text)
    except ValueError:
        number = -1
    if not isfinite(number) or not 0 <= number <= _MOST:
        raise EngineError(f"{name}: {text[:40]!a} must be a {'whole ' if kind is int else ''}number of at least 0")
    return number
