"""Versions of what kvtool rests on, against what it asks for."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version

from kvtool.cli.commands.doctor.item import DoctorItem
from kvtool.errors import INSTALL_ENGINE
from kvtool.version import __version__

_SECTION = "Versions"
_EXTRA = "engine"


def versions() -> Iterator[DoctorItem]:
    """kvtool, Python, and every dependency; one that is not there is broken, one of another version is told.

    Those of the extra `engine` may be missing.
    """
    yield DoctorItem(_SECTION, "kvtool", __version__)
    system = f"{platform.system()} {platform.machine()}"
    yield DoctorItem(_SECTION, "python", f"{platform.python_version()}, {platform.python_implementation()} on {system}")
    try:
        required = requires("kvtool") or []
    except PackageNotFoundError:
        yield DoctorItem(
            _SECTION, "dependencies", "unknown: kvtool is not installed", "note", "pip install -e . in its folder"
        )
        return
    for requirement in required:
        name, marker = _split(requirement)
        if "extra ==" not in marker:
            yield _dependency(name, requirement)
        elif f'extra == "{_EXTRA}"' in marker.replace("'", '"'):
            yield _dependency(name, requirement, optional=True)


def _dependency(name: str, requirement: str, *, optional: bool = False) -> DoctorItem:
    wanted = requirement.partition(";")[0].strip()
    try:
        found = version(name)
    except PackageNotFoundError:
        if optional:
            return DoctorItem(_SECTION, name, "not installed: only real runs need it", "missing", INSTALL_ENGINE)
        return DoctorItem(_SECTION, name, "not installed", "broken", f"pip install '{wanted}'")
    if not _fits(found, requirement):
        return DoctorItem(_SECTION, name, f"{found}, which is not {wanted}", "note", f"pip install '{wanted}'")
    return DoctorItem(_SECTION, name, found)


def _split(requirement: str) -> tuple[str, str]:
    """The name of a requirement, and its marker."""
    end = next((at for at, char in enumerate(requirement) if not (char.isalnum() or char in "._-")), len(requirement))
    return requirement[:end], requirement.partition(";")[2]


def _fits(found: str, requirement: str) -> bool:
    """Whether a version is what a requirement asks for; what cannot be told is taken to."""
    try:
        from packaging.requirements import InvalidRequirement, Requirement
        from packaging.version import InvalidVersion
    except ImportError:
        return True
    try:
        return Requirement(requirement).specifier.contains(found, prereleases=True)
    except (InvalidRequirement, InvalidVersion):
        return True
