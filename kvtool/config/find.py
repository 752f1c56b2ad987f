"""Search for the configuration file."""

from __future__ import annotations

import os
import tomllib

from kvtool.text.files.root_folder import git_root

NAME = "kvtool.toml"
PYPROJECT = "pyproject.toml"
_MENTION = b"kvtool"
_MAX_PROJECT_BYTES = 1 << 20
"""A bound for hostile input: pyproject.toml of large projects has some 10 KiB."""


def find_config(folder: str | None = None) -> str | None:
    """Return the nearest kvtool.toml, or pyproject.toml with [tool.kvtool], from `folder` (the working folder) up to the git root.

    In one folder kvtool.toml goes first. Without a git root only `folder` itself is looked at. A pyproject.toml that mentions
    kvtool and cannot be read as TOML counts: what it says of kvtool is not known.
    """
    try:
        start = os.path.realpath(folder or os.getcwd())  # noqa: PTH109 - strings are enough, and this runs at every start
    except OSError:  # the working folder is gone
        return None
    for place in _folders(start):
        for name in (NAME, PYPROJECT):
            path = os.path.join(place, name)  # noqa: PTH118
            if os.path.lexists(path) and (name == NAME or has_table(path)):
                return path
    return None


def from_here(path: str) -> str:
    """Normalize a path; an absolute one within the git root (without one: the working folder) as it is found from here.

    So what is printed does not tell machines apart.
    """
    if not path or "\0" in path:
        return path
    try:
        here, there = os.path.realpath("."), os.path.realpath(path)
    except OSError:  # the working folder is gone
        return os.path.normpath(path)
    if not os.path.isabs(path):  # noqa: PTH117
        return os.path.relpath(path)
    within = there.startswith(os.path.join(git_root(here) or here, ""))  # noqa: PTH118
    return os.path.relpath(there, here) if within else os.path.normpath(path)


def _folders(start: str) -> list[str]:
    root = git_root(start)
    folders = [start]
    while root is not None and folders[-1] != root:
        folders.append(os.path.dirname(folders[-1]))  # noqa: PTH120
    return folders


def has_table(path: str) -> bool:
    """Return whether a pyproject.toml has [tool.kvtool], or mentions kvtool and cannot be read as TOML."""
    try:
        if not os.path.isfile(path):  # noqa: PTH113
            return False
        with open(path, "rb") as file:  # noqa: PTH123
            data = file.read(_MAX_PROJECT_BYTES + 1)
    except OSError:
        return False
    if _MENTION not in data or len(data) > _MAX_PROJECT_BYTES:
        return False
    try:
        tool = tomllib.loads(data.decode("utf-8-sig")).get("tool")
    except (ValueError, RecursionError):
        return True
    return isinstance(tool, dict) and "kvtool" in tool
