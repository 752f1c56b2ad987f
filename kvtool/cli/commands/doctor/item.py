"""One thing that was looked at, and how it is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Status = Literal["ok", "note", "missing", "broken"]
"""`note`: it works, with something to know; `missing`: something that is optional; `broken`: kvtool does not work without it."""


@dataclass(frozen=True, slots=True)
class DoctorItem:
    """`value` is what was found, `help` what to do about it where there is something to do."""

    section: str
    name: str
    value: str
    status: Status = "ok"
    help: str = ""


def shown_home(path: str | Path) -> str:
    """Return a path with `~` for the home folder: what a doctor says is sent around."""
    text = str(path)
    try:
        home = str(Path.home())
    except RuntimeError:  # nobody knows whose process this is
        return text
    if home in ("", "/"):
        return text
    return f"~{text[len(home) :]}" if text == home or text.startswith(f"{home}/") else text


def first_line(error: BaseException) -> str:
    """Return an error in one line of a bounded length."""
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:160].replace(str(Path.home()), "~")
