"""Finding a tokenizer's files (built-in, local, Hugging Face cache or hub) and keeping the converted built-in one."""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from kvtool.errors import KvtoolError, NotAvailableError, Place
from kvtool.text.files.json_file import json_of
from kvtool.text.files.part_file import PartFile
from kvtool.text.files.text_files import read_text

BUILT_IN = "tekken"
_BUILT_IN_FILE = "tekken_240911.json"
_HINT = "-t ./tokenizer.json, or leave -t out for the built-in tokenizer"
_HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?", re.ASCII)
_FINGERPRINT = 16
"""Digits of a digest that are shown, and part of the names of conversions."""
_CACHE_LAYOUT = 1
"""Part of the cache key: to be raised when what `_converted` writes changes."""


@dataclass(frozen=True, eq=False)
class TokenizerFiles:
    """What a tokenizer is made of: its tokenizer.json, the tokens its configuration names, its chat template."""

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
        if spec is None or not isinstance(spec.get("model"), dict):
            raise KvtoolError(f"tokenizer `{self.name}` is not a tokenizer.json", hint=_HINT)
        return spec


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
    source = _built_in_source()
    return source, _conversion(_digest(source.read_bytes()))


def _built_in() -> TokenizerFiles:
    return _from_tekken(BUILT_IN, _built_in_source())


def _built_in_source() -> Path:
    package = find_spec("mistral_common")
    folders = package.submodule_search_locations if package else None
    source = Path(folders[0]) / "data" / _BUILT_IN_FILE if folders else None
    if source is None or not source.is_file():
        raise NotAvailableError(
            "the built-in tokenizer is missing: it comes with the package mistral-common",
            hint="pip install 'mistral-common>=1.8.5,<2', or -t ./tokenizer.json",
        )
    return source


def _from_file(name: str, path: Path) -> TokenizerFiles:
    if path.name == "tekken.json":
        return _from_tekken(name, path)
    data = path.read_bytes()
    return TokenizerFiles(name, _digest(data), lambda: data, {}, None)


def _from_folder(name: str, find: Callable[[str], Path | None], where: str) -> TokenizerFiles:
    """`find` gives the path of one of the tokenizer's files, or None where there is no such file."""
    source = find("tokenizer.json")
    if source is None:
        tekken = find("tekken.json")
        if tekken is None:
            raise KvtoolError(f"tokenizer `{name}`: no tokenizer.json in {where}", hint=_HINT)
        return _from_tekken(name, tekken)
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
    data = source.read_bytes()
    return TokenizerFiles(name, _digest(data), lambda: data, named, template)


def _from_hub(name: str, *, offline: bool) -> TokenizerFiles:
    from huggingface_hub import hf_hub_download, try_to_load_from_cache
    from huggingface_hub.errors import EntryNotFoundError

    def cached(file: str) -> Path | None:
        found = try_to_load_from_cache(name, file)
        return Path(found) if isinstance(found, str) else None

    def download(file: str) -> Path | None:
        if (found := cached(file)) is not None:
            return found
        try:
            return Path(hf_hub_download(name, file))
        except EntryNotFoundError:
            return None

    try:
        if cached("tokenizer.json") or cached("tekken.json"):
            return _from_folder(name, cached, "the local Hugging Face cache")
        if offline:
            raise NotAvailableError(f"tokenizer `{name}` is not cached and --offline is set", hint=_HINT)
        return _from_folder(name, download, "this repository")
    except KvtoolError:
        raise
    except Exception as error:  # whatever the hub client raises: no network, no such repository, no permission
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise NotAvailableError(f"tokenizer `{name}` cannot be downloaded: {reason}", hint=_HINT) from error


def _from_tekken(name: str, source: Path) -> TokenizerFiles:
    """A Mistral vocabulary file as a tokenizer.json: converted once (some seconds), then read from the user's cache."""
    digest = _digest(source.read_bytes())
    named = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    return TokenizerFiles(name, digest, lambda: _kept_conversion(name, source, digest), named, None)


def _kept_conversion(name: str, source: Path, digest: str) -> bytes:
    cache = _conversion(digest)
    with suppress(OSError):
        data = cache.read_bytes()
        if _parsed(data) is not None:  # not cut off
            return data
    data = _converted(name, source)
    with suppress(OSError):
        write_atomically(cache, data)
    return data


def _converted(name: str, source: Path) -> bytes:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecations inside these libraries are none of the user's business
        from tokenizers.processors import TemplateProcessing
        from transformers.integrations.mistral import convert_tekken_tokenizer  # type: ignore[attr-defined]  # lazily exported

        try:
            # A chat template is passed so that none is generated; ours comes from text/templates/.
            tokenizer = convert_tekken_tokenizer(str(source), chat_template="").backend_tokenizer
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise KvtoolError(f"tokenizer `{name}`: {source.name} is not a Tekken vocabulary") from error
        # Mistral's servers begin a prompt with <s>; the conversion leaves that out.
        bos = tokenizer.token_to_id("<s>")
        tokenizer.post_processor = TemplateProcessing(single="<s> $A", special_tokens=[("<s>", bos)])
        return str(tokenizer.to_str()).encode()


def _parsed(data: bytes) -> Mapping[str, object] | None:
    """The object that a JSON document holds; None where it is broken or no object."""
    import orjson

    try:
        value = orjson.loads(data)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file so that no other process ever sees a part of it; OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = PartFile(path)
    try:
        part.file.write(data)
        part.put()
    except BaseException:
        part.discard()
        raise


def _conversion(digest: str) -> Path:
    """Where the converted form of a vocabulary is kept; other versions of the libraries may convert it to something else."""
    libraries = f"{version('transformers')}-{version('tokenizers')}"
    return cache_folder() / f"tekken-{digest[:_FINGERPRINT]}-{libraries}-{_CACHE_LAYOUT}.json"


def cache_folder() -> Path:
    """Where forms of tokenizers are kept that load sooner than their files."""
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
