"""The result of reading one file, and the form in which processes and the cache pass it on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from kvtool.diagnose.codes.entry import DifferenceKind
from kvtool.errors import KvtoolError, Place
from kvtool.lint.findings.ignore_comments import Ignore
from kvtool.lint.passed_values import PassedValue, RenderedFile
from kvtool.lint.skeleton import TemplatePlace
from kvtool.results.finding import Finding


@dataclass(frozen=True, slots=True)
class JudgedText:
    """`note` says why there is nothing to see; `error` what is wrong with the file, of which nothing else is reported then.

    `files` are those that it names, relative to its own folder; `known` is False for a file with nothing that lint reads;
    `partly`: `note` names the part of the file that was not judged.
    """

    findings: list[Finding] = field(default_factory=list)
    ignores: list[Ignore] = field(default_factory=list)
    note: str = ""
    files: tuple[str, ...] = ()
    rendered: tuple[RenderedFile, ...] = ()
    """Template files that code renders with values that surely differ."""
    imported: tuple[str, ...] = ()
    """Files that decide what code imports, those that do not exist too."""
    made: tuple[str, ...] = ()
    """Values that are made in other files and whose losses it reports, each as a key of `loss_key`."""
    known: bool = True
    partly: bool = False
    error: KvtoolError | None = None

    def packed(self) -> str:
        """As JSON, which `unpacked` reads."""
        plain: dict[str, Any] = {}
        if self.findings:
            plain["findings"] = [finding.model_dump(mode="json", exclude_defaults=True) for finding in self.findings]
        if self.ignores:
            plain["ignores"] = [asdict(ignore) for ignore in self.ignores]
        if self.error is not None:
            place = None if self.error.place is None else asdict(self.error.place)
            plain["error"] = [self.error.message, self.error.hint, place, self.error.exit_code]
        if self.rendered:
            plain["rendered"] = [asdict(one) for one in self.rendered]
        plain |= {
            name: value for name in ("note", "files", "imported", "made", "partly") if (value := getattr(self, name))
        }
        return json.dumps(plain if self.known else plain | {"known": False})

    @classmethod
    def unpacked(cls, text: str) -> JudgedText:
        """ValueError, KeyError or TypeError where it is not what `packed` writes."""
        plain = json.loads(text)
        error = plain.get("error")
        return cls(
            findings=[Finding.model_validate(each) for each in plain.get("findings", ())],
            ignores=[_ignore(each) for each in plain.get("ignores", ())],
            note=str(plain.get("note", "")),
            files=tuple(map(str, plain.get("files", ()))),
            rendered=tuple(_rendered(each) for each in plain.get("rendered", ())),
            imported=tuple(map(str, plain.get("imported", ()))),
            made=tuple(map(str, plain.get("made", ()))),
            known=bool(plain.get("known", True)),
            partly=bool(plain.get("partly", False)),
            error=None if error is None else _error(*error),
        )


def loss_key(path: str, line: int, code: str) -> str:
    """Return what says that two findings are of one value."""
    return f"{path}:{line}:{code}"


def _ignore(plain: Mapping[str, Any]) -> Ignore:
    ignore = Ignore(**plain)
    return replace(ignore, codes=tuple(ignore.codes), files=tuple(ignore.files))


def _rendered(plain: Mapping[str, Any]) -> RenderedFile:
    values = (
        PassedValue(one["variable"], DifferenceKind(**one["kind"]), one["clock"], TemplatePlace(**one["place"]))
        for one in plain["values"]
    )
    return RenderedFile(plain["name"], tuple(values), tuple(plain["settled"]))


def _error(message: str, hint: str | None, place: Mapping[str, Any] | None, exit_code: int) -> KvtoolError:
    return KvtoolError(message, hint=hint, place=None if place is None else Place(**place), exit_code=exit_code)
