"""Finding a tokenizer's files (built-in, local, Hugging Face cache or hub) and keeping the converted built-in one."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import stat
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from errno import EINVAL
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from kvtool.errors import INSTALL_ENGINE, KvtoolError, NotAvailableError, Place
from kvtool.text.files.checkout_links import make_folders
from kvtool.text.files.json_file import json_of
from kvtool.text.files.part_file import PartFile
from kvtool.text.files.text_files import decode, read_data, read_text
from kvtool.text.tokens.tekken import BUILT_IN_DIGEST, BUILT_IN_FILE, NAMED_TOKENS, built_in_json, tekken_json
from kvtool.text.tokens.tiktoken_file import is_tiktoken, tiktoken_json, tiktoken_kind

T = TypeVar("T")
BUILT_IN = "tekken"
_HINT = "pass -t ./tokenizer.json, or leave -t out for the built-in tokenizer"
_HUB_HINT = "pass -t ./tokenizer.json or its folder; the server's path may exist only on its machine"
_HUB_TIMEOUT = 5.0
"""Seconds for the hub's first answer."""
_HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?", re.ASCII)
_FINGERPRINT = 16
"""Digits of a digest that are shown, and part of the names of conversions."""
_CACHE_LAYOUT = 2
"""Part of the cache key: to be raised when what `text.tokens.ranks` makes of a vocabulary changes."""


@dataclass(frozen=True, eq=False)
class TokenizerFiles:
    """The parts of a tokenizer: its tokenizer.json, the tokens that its configuration names, its chat template."""

    name: str
    digest: str
    """Of the file that the tokenizer is made of: SHA-256, in hexadecimal digits."""
    read: Callable[[], bytes]
    """Gives the tokenizer.json, which for the built-in tokenizer is made first."""
    named_tokens: Mapping[str, str]
    chat_template: str | None

    @property
    def fingerprint(self) -> str:
        """As much of the digest as reports show."""
        return self.digest[:_FINGERPRINT]

    @cached_property
    def data(self) -> bytes:
        """The tokenizer.json as it is."""
        return self.read()

    @cached_property
    def spec(self) -> Mapping[str, object]:
        """The tokenizer.json, parsed; KvtoolError where it is none."""
        spec = _parsed(self.data)
        if spec is None and self.data.lstrip().startswith(b"{"):
            self._report_broken()
        if spec is None or not isinstance(spec.get("model"), dict):
            raise KvtoolError(f"tokenizer `{self.name}` is not a tokenizer.json", hint=_HINT)
        return spec

    def _report_broken(self) -> None:
        """KvtoolError, with its place, for what is no JSON."""
        shown = f"{self.name}/tokenizer.json" if Path(self.name).expanduser().is_dir() else self.name
        json_of(
            decode(self.data, shown=shown),
            shown=shown,
            broken=f"tokenizer `{self.name}` is not a tokenizer.json: {{}}".format,
            hint=_HINT,
        )


def find_tokenizer(name: str | None, *, offline: bool) -> TokenizerFiles:
    """The files of the built-in tokenizer (None), of a file or folder, or of a Hugging Face id."""
    if name is None:
        return _built_in()
    path = Path(name).expanduser()
    try:
        if path.is_dir():
            return _from_folder(name, lambda file: path / file if (path / file).is_file() else None, str(path))
        if path.exists():
            if path.name == "tokenizer.json":
                return _from_folder(
                    name, lambda file: path.parent / file if (path.parent / file).is_file() else None, name
                )
            return _from_file(name, path)
    except OSError as error:
        raise KvtoolError(f"cannot read tokenizer `{name}`: {error.strerror or error}") from error
    if not _HUB_ID.fullmatch(name) or name.startswith((".", "-")) or name.endswith((".json", ".model")):
        raise KvtoolError(f"tokenizer `{name}`: no such file or folder", hint=_HINT)
    return _from_hub(name, offline=offline)


def built_in_files() -> tuple[Path, Path]:
    """The vocabulary of the built-in tokenizer, and the file in the user's cache that its converted form is kept in.

    Raises NotAvailableError where there is no vocabulary.
    """
    if not BUILT_IN_FILE.is_file():
        raise NotAvailableError(
            f"the built-in tokenizer is missing: the installation has no {BUILT_IN_FILE.name}",
            hint="reinstall kvtool, or pass -t ./tokenizer.json",
        )
    return BUILT_IN_FILE, _conversion(BUILT_IN_DIGEST)


def _built_in() -> TokenizerFiles:
    built_in_files()
    return _converted(BUILT_IN, BUILT_IN_DIGEST, built_in_json, NAMED_TOKENS)


def _from_file(name: str, path: Path) -> TokenizerFiles:
    if path.name == "tekken.json":
        return _from_tekken(name, path)
    data = read_data(path, what="tokenizer ", shown=name)
    if is_tiktoken(data):
        return _from_tiktoken(name, data)
    return TokenizerFiles(name, _digest(data), lambda: data, {}, None)


def _from_tiktoken(name: str, data: bytes) -> TokenizerFiles:
    """A list of ranks as a tokenizer.json."""
    kind = tiktoken_kind(name, data)
    return _converted(name, _digest(data), lambda: tiktoken_json(name, data, kind), kind.named)


def _from_folder(name: str, find: Callable[[str], Path | None], where: str) -> TokenizerFiles:
    """`find` gives the path of one of the tokenizer's files, or None where there is no such file."""
    source = find("tokenizer.json")
    if source is None:
        tekken = find("tekken.json")
        if tekken is not None:
            return _from_tekken(name, tekken)
        others = [path for file in MADE_OF if (path := find(file)) is not None]
        if not others:
            raise KvtoolError(f"tokenizer `{name}`: no tokenizer.json in {where}", hint=_HINT)
        data = others[0].read_bytes()
        if is_tiktoken(data):
            return _from_tiktoken(name, data)
        data = made_json(name, others[0].parent)
    else:
        data = source.read_bytes()
    config_path, map_path, template_path = map(
        find, ("tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja")
    )
    config = _json_object(config_path) if config_path else {}
    named = _named_tokens(_json_object(map_path) if map_path else {}) | _named_tokens(config)
    template = (
        read_text(template_path, shown=str(template_path))
        if template_path
        else _default_template(config.get("chat_template"))
    )
    return TokenizerFiles(name, _digest(data), lambda: data, named, template)


def _from_hub(name: str, *, offline: bool) -> TokenizerFiles:
    from huggingface_hub import get_hf_file_metadata, hf_hub_download, hf_hub_url, try_to_load_from_cache

    def cached(file: str) -> Path | None:
        found = try_to_load_from_cache(name, file)
        return Path(found) if isinstance(found, str) else None

    def download(file: str) -> Path | None:
        found = cached(file) or _if_there(lambda: hf_hub_download(name, file))
        return None if found is None else Path(found)

    try:
        if cached("tokenizer.json") or cached("tekken.json"):
            return _from_folder(name, cached, "the local Hugging Face cache")
        if offline:
            raise NotAvailableError(f"tokenizer `{name}` is not cached and --offline is set", hint=_HINT)
        with _quiet_hub():
            # Asked once whether the hub is there: a download tries for minutes.
            _if_there(lambda: get_hf_file_metadata(hf_hub_url(name, "tokenizer.json"), timeout=_HUB_TIMEOUT))
            return _from_folder(name, download, "this repository")
    except KvtoolError:
        raise
    except Exception as error:  # whatever the hub client raises: no network, no such repository, no permission
        said = f"tokenizer `{name}` is not a local folder, and cannot be downloaded: {_hub_trouble(error)}"
        raise NotAvailableError(said, hint=_HUB_HINT) from None


def _if_there(ask: Callable[[], T]) -> T | None:
    """Return the hub's answer; None where it says that it has no such file."""
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    try:
        return ask()
    except LocalEntryNotFoundError:  # also an EntryNotFoundError, but of a hub that does not answer
        raise
    except EntryNotFoundError:
        return None


@contextmanager
def _quiet_hub() -> Iterator[None]:
    """Without the lines that its client logs: an error says what went wrong."""
    logger = logging.getLogger("huggingface_hub")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)


def _hub_trouble(error: Exception) -> str:
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        HFValidationError,
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
    )

    if isinstance(error, HFValidationError):
        return "a Hugging Face repository cannot have this name"
    if isinstance(error, GatedRepoError):
        return "its repository needs an accepted license and HF_TOKEN"
    if isinstance(error, RepositoryNotFoundError):
        return "the Hugging Face hub has no such repository, or it is private"
    if isinstance(error, OfflineModeIsEnabled):
        return "HF_HUB_OFFLINE is set"
    if isinstance(error, HfHubHTTPError):
        return f"the Hugging Face hub answers with HTTP {error.response.status_code}"
    return "the Hugging Face hub cannot be reached"


def _from_tekken(name: str, source: Path) -> TokenizerFiles:
    """A Mistral vocabulary file as a tokenizer.json."""
    data = source.read_bytes()

    def convert() -> bytes:
        try:
            return tekken_json(_parsed(data) or {})
        except (ValueError, KeyError, TypeError) as error:
            raise KvtoolError(f"tokenizer `{name}`: {source.name} is not a Tekken vocabulary") from error

    return _converted(name, _digest(data), convert, NAMED_TOKENS)


def _converted(name: str, digest: str, convert: Callable[[], bytes], named: Mapping[str, str]) -> TokenizerFiles:
    """A vocabulary by ranks: made a tokenizer.json once (a second or two), then read from the user's cache."""
    return TokenizerFiles(name, digest, lambda: _kept_conversion(digest, convert), named, None)


def _kept_conversion(digest: str, convert: Callable[[], bytes]) -> bytes:
    cache = _conversion(digest)
    with suppress(OSError):
        data = read_kept(cache)
        if _parsed(data) is not None:  # not cut off
            return data
    data = convert()
    keep(cache, data)
    return data


def _parsed(data: bytes) -> Mapping[str, object] | None:
    """The object that a JSON document holds; None where it is broken or no object."""
    import orjson

    try:
        value = orjson.loads(data)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def read_kept(path: Path) -> bytes:
    """Read a file of the cache; OSError, too, for what is not a regular file: a pipe or a device may have no end."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(EINVAL, "not a regular file")
        return file.read()


def keep(path: Path, data: bytes) -> None:
    """Write a file of the cache, where that can be: no other process ever sees a part of it."""
    with suppress(OSError, KvtoolError):
        part = PartFile(make_folders(path.parent) / path.name)  # a link or a pipe there makes room
        try:
            part.file.write(data)
            part.put()
        except BaseException:
            part.discard()
            raise


def _conversion(digest: str) -> Path:
    """Return the path of a vocabulary's converted form."""
    return cache_folder() / f"ranks-{digest[:_FINGERPRINT]}-{_CACHE_LAYOUT}.json"


def cache_folder() -> Path:
    """Return the folder for forms of tokenizers that load sooner than their files."""
    from platformdirs import user_cache_path

    return user_cache_path("kvtool") / "tokenizers"


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _json_object(path: Path) -> dict[str, object]:
    shown = str(path)
    value = json_of(read_text(path, shown=shown), shown=shown, broken=f"{path.name} is not JSON: {{}}".format)
    if not isinstance(value, dict):
        raise KvtoolError(f"{path.name} is not a JSON object", place=Place(shown, 1, 1))
    return value


def _named_tokens(config: Mapping[str, object]) -> dict[str, str]:
    """The `…_token` entries of a tokenizer configuration, each a string or an object with its `content`."""
    result: dict[str, str] = {}
    for key, value in config.items():
        content = value.get("content") if isinstance(value, dict) else value
        if key.endswith("_token") and isinstance(content, str):
            result[key] = content
    return result


def _default_template(value: object) -> str | None:
    """`chat_template` of a tokenizer configuration: a text, or a list of named ones of which `default` counts."""
    if isinstance(value, list):
        named = [entry for entry in value if isinstance(entry, dict) and entry.get("name") == "default"]
        value = named[-1].get("template") if named else None
    return value if isinstance(value, str) else None


MADE_OF = ("tokenizer.model", "spiece.model", "vocab.json", "vocab.txt", "tokenizer_config.json")
"""Files that such a tokenizer may be made of."""


def has_tokenizer(folder: Path) -> bool:
    """Return whether a folder is here and has the files of a tokenizer."""
    return any((folder / file).is_file() for file in ("tokenizer.json", "tekken.json", *MADE_OF))


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
        why = "is not installed" if missing else f"cannot be imported ({_first_line(error)})"
        raise NotAvailableError(
            f"tokenizer `{name}` has no tokenizer.json, and transformers {why}",
            hint=INSTALL_ENGINE,
        ) from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        return str(made.backend_tokenizer.to_str()).encode()
    except Exception as error:  # whatever transformers raises: of its own, of a library that it lacks, of a broken file
        raise KvtoolError(
            f"tokenizer `{name}` has no tokenizer.json, and transformers cannot make one: {_first_line(error)}",
            hint="pass -t ./tokenizer.json, or leave -t out for the built-in tokenizer",
        ) from error


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:160] if lines else type(error).__name__
