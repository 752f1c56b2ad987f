"""The generated parts of pages, by name: `<!-- begin NAME ARGUMENT… -->`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import yaml

from docs.generators import api, commands, keys, log_examples
from docs.generators.pages import fenced
from docs.generators.report_columns import report_columns
from docs.generators.tables import table
from kvtool.accounting.caches.providers import PROVIDERS
from kvtool.accounting.ledger.fates import FATES
from kvtool.diagnose.codes import TIERS
from kvtool.engine.fleet.routers.known_routers import ROUTERS
from kvtool.engine.fleet.routers.named_router import settings_of
from kvtool.lint.formats.prompt_formats import FORMATS as PROMPT_FORMATS
from kvtool.report.formats.csv_table import COLUMNS
from kvtool.report.registry import FORMATS
from kvtool.workload.logs.files import file_kinds as kinds_of_files
from kvtool.workload.logs.formats import known_formats
from kvtool.workload.logs.formats.unread import unread_shapes
from kvtool.workload.request_fields import REQUEST_FIELDS

_ROOT = Path(__file__).resolve().parents[2]
_CHANGES = {"prompt": "the prompt", "lookup": "the lookup", "requests": "the number of requests", "order": "the order"}
_FENCES = {".yml": "yaml", ".yaml": "yaml", ".toml": "toml", ".py": "python", ".md": "markdown"}


def file(path: str) -> str:
    """A file of the repository, whole."""
    text = (_ROOT / path).read_text(encoding="utf-8")
    return fenced(text, _FENCES.get(Path(path).suffix, "text"))


def keys_toml(name: str) -> str:
    """The keys of a model of kvtool.toml."""
    return keys.key_table(name, notation="toml")


def fates() -> str:
    """Every fate of a prompt token: its name in JSON and in the terminal."""
    return table(("in JSON", "in the report"), [(f"`{name}`", words) for name, words in FATES.items()])


def request_fields() -> str:
    """Fields of requests that change hits: what they do, and whether that is followed."""
    rows = [
        (f"`{each.name}`", _CHANGES[each.changes], each.does, "yes" if each.followed else "no, only named")
        for each in REQUEST_FIELDS.values()
    ]
    return table(("field", "changes", "what it does", "followed"), rows)


def action(part: str) -> str:
    """The inputs or outputs of the GitHub action."""
    found = yaml.safe_load((_ROOT / "action.yml").read_text(encoding="utf-8"))[part]
    if part == "outputs":
        return table(("output", "what it is"), [(f"`{name}`", each["description"]) for name, each in found.items()])
    rows = [(f"`{name}`", each["description"], _code(each["default"])) for name, each in found.items()]
    return table(("input", "what it is", "default"), rows)


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def tiers() -> str:
    """The proof tiers."""
    return table(("tier", "what is proven"), list(TIERS.items()))


def formats() -> str:
    """Every output format."""
    rows = [
        (
            f"`{each.name}`",
            each.what,
            ", ".join(f"`{end}`" for end in (*each.files, *each.extensions)) or "by name only",
        )
        for each in FORMATS.values()
    ]
    return table(("format", "what it is", "extensions"), rows)


def csv_columns() -> str:
    """The columns of a CSV."""
    return table(("column", "what it is"), [(f"`{name}`", what) for name, what in COLUMNS.items()])


def record_formats() -> str:
    """Every format of records of a log."""
    return table(
        ("format", "recognized by"), [(f"`{each.name}`", each.shape) for each in known_formats.record_formats()]
    )


def file_kinds() -> str:
    """Every kind of file that holds records and is no JSON."""
    return table(("kind", "begins with"), [(f"`{each.name}`", each.shape) for each in kinds_of_files.file_kinds()])


def unread_files() -> str:
    """Every file of a known tool that is refused by its name."""
    rows = [(each.message, each.hint) for each in unread_shapes() if not each.left_out]
    return table(("what it is", "what works"), sorted(rows))


def prompt_formats() -> str:
    """Every format in which frameworks keep prompts, with a small example."""
    shown = []
    for each in PROMPT_FORMATS:
        suffixes = ", ".join(f"`{suffix}`" for suffix in each.suffixes)
        shown.append(f"{each.name} ({suffixes}):\n\n{fenced(each.example, each.language)}")
    return "\n\n".join(shown)


def providers() -> str:
    """The cache rules of hosted models."""
    rows = [
        (f"`{each.name}`", each.models, f"{each.minimum:,}", f"{each.step:,}", _minutes(each.ttl), each.as_of)
        for each in PROVIDERS
    ]
    return table(("name", "models", "minimum, tokens", "step, tokens", "kept for", "as of"), rows)


def routers() -> str:
    """The routers of a fleet: whose they are, their rules, and their settings as they are by default."""
    rows = [
        (
            f"`{name}`",
            kind.rule + (f". Not followed: {kind.left_out}" if kind.left_out else ""),
            ", ".join(f"`{key}={value}`" for key, value in settings_of(kind.settings).items()),
            kind.view,
            kind.version or "-",
            "; ".join(kind.sources) or "-",
        )
        for name, kind in ROUTERS.items()
    ]
    return table(("router", "who gets a request", "settings", "knows", "version", "source"), rows)


def _minutes(seconds: float | None) -> str:
    return "not said" if seconds is None else f"{seconds / 60:g} min"


PARTS: dict[str, Callable[..., str]] = {
    "request_fields": request_fields,
    "action": action,
    "api": api.function,
    "api-model": api.model,
    "command": commands.reference,
    "commands": commands.listing,
    "csv-columns": csv_columns,
    "fates": fates,
    "file": file,
    "file-kinds": file_kinds,
    "unread-files": unread_files,
    "formats": formats,
    "log-examples": log_examples.log_examples,
    "keys": keys.key_table,
    "keys-toml": keys_toml,
    "providers": providers,
    "routers": routers,
    "record-formats": record_formats,
    "report-columns": report_columns,
    "prompt-formats": prompt_formats,
    "tiers": tiers,
    "variables": commands.variables,
}
