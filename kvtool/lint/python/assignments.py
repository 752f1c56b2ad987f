"""Assigned values of names, and the changes since a branch began: nothing is copied for a branch, or searched for a name."""

from __future__ import annotations

from typing import NoReturn

from kvtool.lint.python.text_values import Value
from kvtool.lint.python.work_budget import spend


class Assigned(dict[str, Value]):
    """Values by name; between `begin` and `end` or `undo`, what they were before is known."""

    def __init__(self) -> None:
        super().__init__()
        self._below: dict[str, dict[str, None]] = {}
        """The chains of names by their first one, in the order in which they were assigned: `user.name` of `user`."""
        self._log: list[tuple[str, Value | None]] = []
        """Names that changed while a branch was read, and what they were before, None: nothing."""
        self._begun = 0
        self.changes = 0
        """How often anything was assigned or forgotten: while it stays, all names mean the same."""

    def __setitem__(self, name: str, value: Value) -> None:
        if self._begun:
            self._log.append((name, self.get(name)))
        self.changes += 1
        super().__setitem__(name, value)
        if "." in name:
            self._below.setdefault(name.partition(".")[0], {})[name] = None

    def put(self, name: str, value: Value | None) -> None:
        """A value, or None for a name that is not known any more."""
        if value is not None:
            self[name] = value
        elif name in self:
            del self[name]

    def __delitem__(self, name: str) -> None:
        if self._begun:
            self._log.append((name, self[name]))
        self.changes += 1
        super().__delitem__(name)
        if "." in name:
            self._below[name.partition(".")[0]].pop(name, None)

    def forget_below(self, root: str) -> None:
        """Forget all chains that begin with a name."""
        for name in list(self._below.get(root, ())):
            spend()
            del self[name]

    def begin(self) -> int:
        """From here on changes are kept: the mark to `end` or `undo` them with, the last one first."""
        self._begun += 1
        return len(self._log)

    def before(self, mark: int) -> dict[str, Value | None]:
        """The names that were changed since the mark, and what they were there, None: nothing."""
        found: dict[str, Value | None] = {}
        for name, value in self._log[mark:]:
            found.setdefault(name, value)
        return found

    def end(self, mark: int) -> dict[str, Value | None]:
        """`before`, and nothing is kept for the mark any more."""
        found = self.before(mark)
        self._begun -= 1
        if not self._begun:
            self._log.clear()
        return found

    def undo(self, mark: int) -> dict[str, Value | None]:
        """Take back all changes since the mark; what the names that were changed had become, None: nothing."""
        before = self.before(mark)
        found = {name: self.get(name) for name in before}
        del self._log[mark:]
        self._begun -= 1
        begun, self._begun = self._begun, 0  # what takes changes back is none
        for name, value in before.items():
            spend()
            self.put(name, value)
        self._begun = begun
        return found

    def update(self, *_: object, **__: object) -> NoReturn:
        """Whoever changes names does so one by one."""
        raise NotImplementedError

    clear = pop = popitem = setdefault = update
