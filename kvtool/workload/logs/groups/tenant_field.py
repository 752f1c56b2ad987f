"""The field of a log's records that says whose request each is, where somebody named it."""

from __future__ import annotations

from difflib import get_close_matches

from kvtool.errors import KvtoolError
from kvtool.text.terminal.console import sanitize
from kvtool.text.terminal.numbers import plural
from kvtool.workload.logs.field_names import fields_shown
from kvtool.workload.logs.groups.field_paths import fields_of
from kvtool.workload.logs.records.call_fields import names_of
from kvtool.workload.logs.records.mapped_records import way_of

FLAG = "--tenant"
_LISTED = 16
"""Records whose fields are listed where none has the one that was named."""
_MOST_HINTED = 12
_LONGEST = 60


class TenantField:
    """Takes a tenant from each record of one pass; a record without the field has none, whatever else it names."""

    def __init__(self, path: str) -> None:
        """Raises KvtoolError for what is no path."""
        self.path = path
        self._way = way_of(path, FLAG)
        self._fields: dict[str, None] = {}
        self._there = self._without = 0

    def tenant_of(self, value: object) -> str | None:
        """Of a record's JSON value."""
        tenant = names_of([self._way.value(value)])
        if tenant is not None:
            self._there += 1
        else:
            if self._without < _LISTED:
                self._fields |= dict.fromkeys(fields_of(value))
            self._without += 1
        return tenant

    def check(self) -> None:
        """After a pass: KvtoolError where no record had the field."""
        if self._there or not self._without:
            return
        known = list(self._fields)
        near = get_close_matches(self.path, known, n=1)
        listed = fields_shown("field", known, _MOST_HINTED)
        guess = f"did you mean `{_shown(near[0])}`? " if near else ""
        raise KvtoolError(
            f"{_none_of(self._without)} a field `{_shown(self.path)}` that names a tenant",
            hint=f"{guess}{listed}" if known else "the records have no fields beside their prompts",
        )

    def notes(self) -> list[str]:
        """What did not fit, for the head of a report."""
        if not self._there or not self._without:
            return []
        return [f"{plural(self._without, 'record')} without `{_shown(self.path)}`: nobody's"]


def _none_of(records: int) -> str:
    return "the record does not have" if records == 1 else f"none of {records:,} records has"


def _shown(name: str) -> str:
    return sanitize(name)[:_LONGEST]
