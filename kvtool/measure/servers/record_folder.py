"""Writes a session with a server into a folder, as `Recording` reads it: for its user alone, as it holds prompts."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from kvtool.errors import KvtoolError
from kvtool.measure.servers.exchange import Exchange
from kvtool.measure.servers.session_recording import REQUESTS
from kvtool.text.files.atomic_file import PRIVATE, AtomicFile
from kvtool.text.files.checkout_links import make_folders

_OPEN_TO_ONE = 0o700
META = "meta.json"


class RecordFolder:
    """A folder that is made, or empty; KvtoolError for another one, before anything is sent."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        try:
            if any(make_folders(self.path, mode=_OPEN_TO_ONE).iterdir()):
                raise KvtoolError(f"--record {path}: the folder is not empty", hint="give a new one")
        except (OSError, ValueError) as error:  # the latter of a null character
            raise KvtoolError(f"--record {path}: {getattr(error, 'strerror', None) or error}") from None

    def keep(self, name: str, data: bytes) -> None:
        """A file, compressed where its name ends in .gz."""
        with AtomicFile(self.path / name, mode=PRIVATE) as file:
            file.write(gzip.compress(data, mtime=0) if name.endswith(".gz") else data)

    def keep_exchanges(self, exchanges: Iterable[Exchange]) -> None:
        """Every request with its answer, a line each."""
        lines = [json.dumps(_fields(each), separators=(",", ":")) for each in exchanges]
        self.keep(f"{REQUESTS}.gz", "".join(f"{line}\n" for line in lines).encode())

    def keep_meta(self, meta: Mapping[str, object]) -> None:
        """How the run was made."""
        self.keep(META, (json.dumps(meta, indent=1, sort_keys=True) + "\n").encode())


def _fields(each: Exchange) -> dict[str, object]:
    fields: dict[str, object] = {
        "n": each.number,
        "endpoint": each.endpoint,
        "body": each.body,
        "sent": each.sent,
        "first": each.first,
        "done": each.done,
        "status": each.status,
        "session_id": each.session_id,
        "response": each.response,
        "trouble": each.trouble,
    }
    return {name: value for name, value in fields.items() if value is not None}
