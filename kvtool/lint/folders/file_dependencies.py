"""Dependencies between files: the paths that were looked at for each file."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

Uses = Mapping[str, Sequence[str]]
"""Real paths of files, each with the paths that were looked at for it, whether a file is there or not."""


class UsedFiles:
    """A graph of files. It holds one edge for each path that was looked at, never all that a file depends on: in a program
    whose files import each other in circles that would be its square."""

    def __init__(self, uses: Uses) -> None:
        self._uses = {path: set(looked) for path, looked in uses.items()}

    def add(self, uses: Uses) -> None:
        """More paths that were looked at."""
        for path, looked in uses.items():
            self._uses.setdefault(path, set()).update(looked)

    def forget(self, paths: Iterable[str]) -> None:
        """Nothing is known any more of what these files use."""
        for path in paths:
            self._uses.pop(path, None)

    def dependent(self, has_changed: Callable[[str], bool]) -> set[str]:
        """All paths that have changed, and all files that depend on one of them."""
        users: dict[str, list[str]] = defaultdict(list)
        for path, looked in self._uses.items():
            for other in looked:
                users[other].append(path)
        changed = [path for path in {*users, *self._uses} if has_changed(path)]
        return _closed(changed, users)

    def reached(self, paths: Iterable[str]) -> dict[str, list[str]]:
        """Return the paths that these files use, directly or through others."""
        return {path: sorted(self._uses[path]) for path in sorted(_closed(paths, self._uses)) if self._uses.get(path)}


def _closed(paths: Iterable[str], edges: Mapping[str, Iterable[str]]) -> set[str]:
    waiting = list(paths)
    seen = set(waiting)
    while waiting:
        new = set(edges.get(waiting.pop(), ())) - seen
        seen |= new
        waiting += new
    return seen
