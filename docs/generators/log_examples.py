"""A small example of each format of logs, and what kvtool reads in it."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docs.generators.pages import fenced
from kvtool.errors import KvtoolError
from kvtool.results.documents.log_contents import LogsDocument
from kvtool.text.terminal.numbers import plural
from kvtool.workload.logs.files.file_kinds import file_kinds
from kvtool.workload.logs.formats.known_formats import record_formats
from kvtool.workload.logs.logs import LogSource
from kvtool.workload.logs.overview import overview_of


def examples() -> dict[str, tuple[str, str]]:
    """Return for each format the name of a file and its text."""
    made = {
        each.name: (f"{each.name}{each.ending}", "".join(f"{json.dumps(value)}\n" for value in _values(each.example)))
        for each in record_formats()
        if each.example
    }
    return made | {each.name: (each.file, each.example) for each in file_kinds() if each.example}


def _values(text: str) -> Iterator[Any]:
    """Yield the JSON values of a text."""
    decoder, at = json.JSONDecoder(), 0
    while rest := text[at:].lstrip():
        at = len(text) - len(rest)
        value, at = decoder.raw_decode(text, at)
        yield value


def log_examples() -> str:
    """Each format with its example, and what is read in it."""
    shown = []
    with tempfile.TemporaryDirectory() as made:
        folder = str(Path(made) / "logs")
        Path(folder).mkdir()
        for name, (file, text) in sorted(examples().items()):
            path = Path(folder) / file
            path.write_text(text, encoding="utf-8")
            shown.append(f"### {name}\n\n{fenced(text.rstrip(chr(10)), _language(file))}\n\n{_read(path, folder)}")
            path.unlink()
    return "\n\n".join(shown)


def _language(file: str) -> str:
    return "json" if file.endswith((".jsonl", ".json", ".har", ".traj")) else "text"


def _read(path: Path, folder: str) -> str:
    try:
        document = overview_of(LogSource([str(path)]), rows=True, full=True)
    except KvtoolError as error:
        told = f"Refused: {error.message.replace(folder + '/', '')}."
        return f"{told} {error.hint[:1].upper()}{error.hint[1:]}." if error.hint else told
    return f"Read as `{document.format}`: {_said(document)}.".replace(f"{folder}/", "")


def _said(document: LogsDocument) -> str:
    rows = document.rows or []
    told = [plural(document.requests, "request")]
    for name in ("session", "tenant", "model"):
        told += [
            f"{name} `{value}`" for value in dict.fromkeys(getattr(row, name) for row in rows) if value is not None
        ]
    first = rows[0]
    counts = {"prompt": first.prompt_tokens, "cached": first.cached_tokens, "output": first.output_tokens}
    if said := [f"{name} {count}" for name, count in counts.items() if count is not None]:
        told.append(f"tokens: {', '.join(said)}")
    told += [f"left out: {kind} {count}" for kind, count in document.left_out.items()]
    told += [f"not whole: {why}" for why in document.incomplete]
    return "; ".join(told)
