"""Tokenizers without a tokenizer.json, which transformers makes by code for each kind."""

from __future__ import annotations

import warnings
from pathlib import Path

from kvtool.errors import INSTALL_ENGINE, KvtoolError, NotAvailableError

MADE_OF = ("tokenizer.model", "spiece.model", "vocab.json", "vocab.txt", "tokenizer_config.json")
"""Files that such a tokenizer may be made of."""


def made_json(name: str, folder: Path) -> bytes:
    """The tokenizer.json that transformers makes of a folder's files. None of the folder's own code is run.

    Raises NotAvailableError where transformers is not installed or cannot be imported, KvtoolError where it cannot read the files.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # deprecations inside the library are none of the user's business
            from transformers import AutoTokenizer
    except Exception as error:  # a broken installation raises what it likes
        missing = isinstance(error, ModuleNotFoundError) and error.name == "transformers"
        why = "is not installed" if missing else f"cannot be imported ({_first(error)})"
        raise NotAvailableError(
            f"tokenizer `{name}` has no tokenizer.json, and transformers, which could make one, {why}",
            hint=INSTALL_ENGINE,
        ) from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        return str(made.backend_tokenizer.to_str()).encode()
    except Exception as error:  # whatever transformers raises: of its own, of a library that it lacks, of a broken file
        raise KvtoolError(
            f"tokenizer `{name}` has no tokenizer.json, and transformers cannot make one: {_first(error)}",
            hint="-t ./tokenizer.json, or leave -t out for the built-in tokenizer",
        ) from error


def _first(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:160] if lines else type(error).__name__
