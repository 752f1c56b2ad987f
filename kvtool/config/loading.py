"""Reads a configuration file: what it says, and where each of it stands."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path as FilePath

from pydantic import ValidationError

from kvtool.config.file_model import Config, EngineOptions
from kvtool.config.find import NAME, PYPROJECT, find_config, from_here
from kvtool.config.option import Argument
from kvtool.config.options.lint_options import Selecting
from kvtool.config.options.shown_options import Configured
from kvtool.diagnose import codes
from kvtool.errors import KvtoolError, Place
from kvtool.text.files.file_patterns import is_pattern, literal_start, matching
from kvtool.text.files.root_folder import RootFolder
from kvtool.text.files.text_files import check_file, decode
from kvtool.text.files.toml_places import Path, TomlPlaces
from kvtool.workload.yaml.validate import in_words, raise_problems

MAX_BYTES = 1 << 20
"""A bound for hostile input: a configuration has some KiB."""
_WHERE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)")
_LONGEST_MESSAGE = 200
"""Characters of a message of tomllib that are shown, about two lines of a terminal."""
_LONG_NUMBER = re.compile(r"[+-]?(?:[0-9]_?){4301}")
_FILES = ("tokenizer", "chat_template", "model")
"""Engine options that may name a file beside the configuration."""
_WORDS = {
    "Invalid value": ("this is no value", 'text needs quotes: "…"; so do times, sizes and percentages'),
    "Invalid statement": ("this is neither a table nor `key = value`", None),
    "Cannot overwrite a value": ("this key was given already", "keep only one"),
    "Unclosed array": ("this list is never closed", "add the closing `]`"),
    "Expected newline or end of document after a statement": (
        "there is text after the value",
        "one `key = value` a line; a comment begins with `#`",
    ),
    "Expected '=' after a key in a key/value pair": ("`=` is missing after the key", None),
    "Unterminated string": ("this text is never closed", "add the closing quote"),
}


@dataclass(frozen=True)
class ConfigFile:
    """A configuration file that was read. `path` is as the user would write it here."""

    path: str
    config: Config
    places: TomlPlaces
    prefix: Path = ()
    """Table of the configuration in the file: `("tool", "kvtool")` in pyproject.toml."""
    data: dict[str, object] = field(default_factory=dict)
    allow_outside: bool = False
    """True: it may name files outside of its repository or folder."""

    @property
    def root(self) -> RootFolder:
        """Return the folder that contains all files that it may name."""
        return RootFolder.of(self.path, allow_outside=self.allow_outside)

    def place(self, *path: str | int, key: bool = False) -> Place:
        """Return the place of a key such as `gate`, `hit_rate`; of a missing key the nearest place around it."""
        return self.places.place((*self.prefix, *path), key=key)

    def found(self, path: Path) -> object:
        """Return the value at `path` as TOML has it; None where there is none."""
        value: object = self.data
        for step in path:
            if isinstance(value, dict):
                value = value.get(step)
            elif isinstance(value, list) and isinstance(step, int) and step < len(value):
                value = value[step]
            else:
                return None
        return value

    def resolve(self, path: str) -> str:
        """Return a path of this file, which counts from its folder, as a path that holds from the working folder."""
        return os.path.normpath(FilePath(self.path).parent / FilePath(path).expanduser())

    @property
    def engine(self) -> EngineOptions:
        """The engine's options; those that name files beside this one as paths that hold from here. KvtoolError for a template that
        is not there, and for what lies outside."""
        return self.engine_without(())

    def engine_without(self, said: Collection[str]) -> EngineOptions:
        """Return the same without options that flags or variables hide: their files are not read, so they may be anywhere."""
        engine, root = self.config.engine, self.root
        changes: dict[str, str] = {}
        for name in _FILES:
            value = getattr(engine, name)
            if not isinstance(value, str) or "\0" in value:
                continue
            path, place = self.resolve(value), self.place("engine", name)
            allowed = RootFolder(None) if name in said else root
            if name == "chat_template":
                allowed.check(path, shown=path, place=place)
                check_file(FilePath(path), shown=path, place=place)
            if os.path.exists(path):  # noqa: PTH110 - else it is a preset or an id
                changes[name] = path
            else:
                path = value  # as it is opened then, from here
            if os.path.exists(path):  # noqa: PTH110
                allowed.check_model(path, shown=path, place=place)
        return engine.model_copy(update=changes)

    @property
    def baseline(self) -> str | None:
        """Return the path of the baseline, from the working folder; KvtoolError where it lies outside."""
        if self.config.check.baseline is None:
            return None
        return self.inside(self.resolve(self.config.check.baseline), self.place("check", "baseline"))

    def inside(self, path: str, place: Place) -> str:
        """Return the path of a file that may be named, or is looked for, at that place; KvtoolError where it lies outside."""
        self.root.check(path, shown=path, place=place)
        return path

    @property
    def workloads(self) -> list[str]:
        """Return the files that `workloads` names, each pattern's sorted, none twice; KvtoolError for what matches nothing."""
        return self._named(self.config.workloads, "workloads")

    @property
    def lint_inputs(self) -> list[str]:
        """Return what `kvtool lint` reads without INPUT: the workloads, and the files and folders of `lint.inputs`."""
        return list(dict.fromkeys((*self.workloads, *self._named(self.config.lint.inputs, "lint", "inputs"))))

    def _named(self, patterns: Sequence[str], *key: str) -> list[str]:
        found: dict[str, None] = {}
        for number, pattern in enumerate(patterns):
            place = self.place(*key, number)
            folder = self.resolve(pattern) if key[0] == "lint" and "\0" not in pattern else ""
            files = [self.inside(folder, place)] if os.path.isdir(folder) else self._files(pattern, place)  # noqa: PTH112
            found |= dict.fromkeys(files)
        return list(found)

    def _files(self, pattern: str, place: Place) -> list[str]:
        path = self.resolve(pattern) if "\0" not in pattern else pattern
        if not is_pattern(pattern) or os.path.isfile(path):  # noqa: PTH113
            self.inside(path, place)
            check_file(FilePath(path), shown=path, place=place)
            return [path]
        wanted = str(FilePath(pattern).expanduser())
        self.root.check(self.resolve(literal_start(wanted)), shown=path, place=place)
        try:
            found = matching(wanted, FilePath(self.path).parent, self.root)
        except (OSError, ValueError) as error:
            raise KvtoolError(f"`{pattern}` is not a pattern of file names", place=place) from error
        except KvtoolError as error:
            raise KvtoolError(error.message, hint=error.hint, place=place) from None
        files = [name for name in map(self.resolve, found) if os.path.isfile(name)]  # noqa: PTH113
        if not files:
            raise KvtoolError(f"no file matches `{path}`", hint=f"paths count from the folder of {NAME}", place=place)
        return sorted(self.inside(name, place) for name in files)


def read_config(asked: Configured, *, allow_outside: bool = False) -> ConfigFile | None:
    """The configuration that applies: the file that was given, else the nearest; None where there is none, or none is wanted.

    KvtoolError for one that cannot be read. What it names must lie in its repository or, without one, its folder, unless
    `allow_outside`.
    """
    given = asked.config
    if asked.no_config:
        if given is not None and given != os.environ.get("KVTOOL_CONFIG"):
            raise KvtoolError("--config names a file, and --no-config reads none", hint="leave one out")
        return None
    if given is not None:
        return replace(load_config(from_here(given)), allow_outside=allow_outside)
    found = find_config()
    if found is None:
        return None
    shown = _shown(found)
    RootFolder.of(found, allow_outside=allow_outside).check(found, shown=shown, place=Place(shown))
    return replace(load_config(shown), allow_outside=allow_outside)


def configured_workload(asked: Configured, command: str, argument: Argument, *, allow_outside: bool) -> str:
    """Return the workload that a command without input reads: the only one of the configuration file.

    KvtoolError where there is no such file, or it names none or several.
    """
    file = read_config(asked, allow_outside=allow_outside)
    found = [] if file is None else file.workloads
    if len(found) == 1:
        return found[0]
    if file is None or not found:
        raise KvtoolError(f"{argument.metavar} is missing", hint=f"{argument.help}; {command} --help")
    raise KvtoolError(
        f"{argument.metavar} is missing: {file.path} names {len(found)} workloads", hint=f"{command} {found[0]}"
    )


def selected(selecting: Selecting, file: ConfigFile | None) -> Selecting:
    """Return the findings that `kvtool lint` tells: what the command line says over what the configuration file says."""
    if file is None:
        return selecting
    lint = file.config.lint
    return Selecting(
        select=selecting.select or tuple(lint.select),
        ignore=selecting.ignore or tuple(lint.ignore),
        error_on=selecting.error_on or lint.error_on,
    )


def load_config(path: str) -> ConfigFile:
    """Read a file; KvtoolError, or ProblemsError for several mistakes. In pyproject.toml it is [tool.kvtool] that counts."""
    source = _read(path)
    places = TomlPlaces(source, path)
    try:
        data: dict[str, object] = tomllib.loads(source)
    except RecursionError:
        raise KvtoolError("nested too deeply", place=Place(path)) from None
    except ValueError as error:
        raise _syntax_error(str(error), places) from None
    prefix: Path = ()
    table: object = data
    if os.path.basename(path) == PYPROJECT:  # noqa: PTH119
        prefix = ("tool", "kvtool")
        tool = data.get("tool")
        table = tool.get("kvtool") if isinstance(tool, dict) else None
        if table is None:
            raise KvtoolError(
                "it has no table [tool.kvtool]", hint="kvtool init --pyproject adds one", place=Place(path)
            )
    file = ConfigFile(path, Config(), places, prefix, table if isinstance(table, dict) else {})
    if not isinstance(table, dict):
        raise KvtoolError("`tool.kvtool` is not a table", place=file.place())
    try:
        return ConfigFile(path, Config.model_validate(table, context=codes), places, prefix, table)
    except ValidationError as error:
        problems = in_words(error, Config, _Placed(file))
    if "tool" in table and not prefix:
        problems = [_not_here(problem) for problem in problems]
    raise_problems(problems)
    raise AssertionError("unreachable")


class _Placed:
    """A file as something whose values can be found again."""

    def __init__(self, file: ConfigFile) -> None:
        self.found = file.found
        self._file = file

    def place(self, path: Path, *, key: bool = False) -> Place:
        return self._file.place(*path, key=key)


def _not_here(problem: KvtoolError) -> KvtoolError:
    if not problem.message.startswith("unknown key `tool`"):
        return problem
    hint = f"in {NAME} write tables without the prefix: [gate], not [tool.kvtool.gate]"
    return KvtoolError(problem.message, hint=hint, place=problem.place)


def _read(path: str) -> str:
    """Return the text, with line feeds as line ends."""
    place = Place(path)
    file = FilePath(path)
    check_file(file, shown=path, place=place)
    try:
        with file.open("rb") as reader:
            data = reader.read(MAX_BYTES + 1)
    except OSError as error:
        raise KvtoolError(f"cannot read `{path}`: {error.strerror or error}", place=place) from error
    if len(data) > MAX_BYTES:
        raise KvtoolError(f"`{path}` is larger than {MAX_BYTES >> 20} MiB", hint="is this the right file?", place=place)
    return decode(data, shown=path, place=place).replace("\r\n", "\n") if data.strip() else ""


def _syntax_error(said: str, places: TomlPlaces) -> KvtoolError:
    """Return an error of `tomllib` in words for the user, with its place."""
    where = _WHERE.search(said)
    words = said[: where.start()] if where else said
    message, hint = _WORDS.get(words, (f"not valid TOML: {words[:_LONGEST_MESSAGE]}", None))
    if words.startswith("Exceeds the limit"):
        message = "a number of thousands of digits"
    if where is None:
        return KvtoolError(message, hint=hint, place=_long_number(places))
    place = (
        places.position(int(where[1]), int(where[2])) if where[1] else places.at(len(places.source), len(places.source))
    )
    return KvtoolError(message, hint=hint, place=place)


def _long_number(places: TomlPlaces) -> Place:
    """Return the first value that is a number of more digits than Python reads."""
    for spot in sorted(places.spots.values(), key=lambda spot: spot.value):
        if _LONG_NUMBER.match(places.source, *spot.value):
            return places.at(*spot.value)
    return Place(places.path, 1, 1)


def _shown(path: str) -> str:
    """Return a path as the user would write it here."""
    try:
        return os.path.relpath(path)
    except (OSError, ValueError):
        return path
