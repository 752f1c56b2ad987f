"""What tells whether a trace is still that of its log: a fingerprint of the log and of all that decides what is made of it."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import xxhash

from kvtool.config.asked_run import RunOptions
from kvtool.errors import KvtoolError, Place
from kvtool.text.tokens.tokenizer_files import TokenizerFiles
from kvtool.version import __version__

_END = 1 << 16
"""Bytes of a log's head and tail that are looked at."""


def options_print(options: RunOptions, tokenizer: TokenizerFiles, template: str | None) -> str:
    """A digest of what makes requests and blocks of logs, whichever log it is."""
    said = {
        "kvtool": __version__,
        "tokenizer": tokenizer.digest,
        "template": template if template is not None else tokenizer.chat_template,
        "block_size": options.serving.block_size,
        "engine": None if options.fallback is None else options.fallback.block_size,
        "tracing": asdict(options.tracing),
        "seed": [options.reading.seed, options.fallback_seed],
        "reading": [options.log_format, options.tenant, options.reading.on_bad_line],
    }
    return xxhash.xxh3_128_hexdigest(json.dumps(said, sort_keys=True, default=str).encode())


def source_print(path: str, asked: str, name: str) -> str:
    """A digest of one log under these options: its size and time of change, its head and its tail. KvtoolError where it cannot be
    read."""
    digest = xxhash.xxh3_128(f"{asked}\0{name}\0".encode(errors="surrogatepass"))
    try:
        with Path(path).open("rb") as file:
            status = Path(path).stat()
            digest.update(f"{status.st_size}\0{status.st_mtime_ns}\0".encode())
            digest.update(file.read(_END))
            if status.st_size > _END:
                file.seek(max(status.st_size - _END, _END))
                digest.update(file.read(_END))
    except (OSError, ValueError) as error:
        raise KvtoolError(f"cannot read: {getattr(error, 'strerror', None) or error}", place=Place(path)) from error
    return digest.hexdigest()
