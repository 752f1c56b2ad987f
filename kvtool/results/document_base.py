"""The base of everything that stands in a file that kvtool writes and reads again."""

from __future__ import annotations

import json
import os
from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, RootModel

from kvtool.results.notebook import notebook_html
from kvtool.text.terminal.runner_commands import blunt_json

Ratio = Annotated[float, Field(ge=0, le=1)]
"""From 0 to 1; never percent."""
Count = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(ge=0)]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
"""What is drawn on an axis."""


_NOT_ALWAYS = ("requests", "reported", "predicted", "difference", "money", "isolation", "kv_events")
"""Parts of a report that only some runs have."""


class Model(BaseModel):
    """Frozen; keys that a newer kvtool added are passed over, so that additive changes keep the schema's number."""

    model_config = ConfigDict(
        defer_build=True, frozen=True, extra="ignore", hide_input_in_errors=True, populate_by_name=True
    )

    @classmethod
    def taken_from(cls, thing: object) -> Self:
        """Each field from the attribute of its name, those of parts too; what else the thing knows stays out."""
        return cls.model_validate(thing, from_attributes=True)


class Document(Model):
    """What stands in a file of its own."""

    tells_defaults: ClassVar[bool] = True
    """Whether fields that nobody set are written."""

    def data(self) -> dict[str, Any]:
        """As plain data; what was not collected (requests, money) is left out."""
        data = self.model_dump(mode="json", by_alias=True, exclude_unset=not self.tells_defaults)
        for report in (data, *data.get("reports", ())):
            for name in _NOT_ALWAYS:
                if report.get(name, ...) is None:
                    del report[name]
            for rows in (report.get("requests"), report.get("groups")):
                for row in rows if isinstance(rows, list) else ():
                    if isinstance(row, dict) and row.get("provider", ...) is None:
                        del row["provider"]
        return data

    def _repr_html_(self) -> str | None:
        """What a notebook shows; None where it has only the text."""
        return notebook_html(self)

    def to_json(self) -> str:
        """One JSON document with sorted keys: what `--json` prints and `kvtool.load` reads."""
        return dump(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a file, whole or not at all. Raises KvtoolError where it cannot be written."""
        from kvtool.text.files.atomic_file import AtomicFile

        with AtomicFile(os.fspath(path)) as file:
            file.write(self.to_json().encode())


def dump(document: Document | RootModel[Any]) -> str:
    """One document with sorted keys and a line end."""
    data = document.data() if isinstance(document, Document) else document.model_dump(mode="json")
    return blunt_json(json.dumps(data, indent=2, sort_keys=True, allow_nan=False)) + "\n"


def dump_line(document: Document) -> str:
    """Return the same in one line, for documents that come one after the other."""
    return blunt_json(json.dumps(document.data(), sort_keys=True, allow_nan=False)) + "\n"
