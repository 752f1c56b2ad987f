"""The device that computes, the tokenizer that is kept, the configuration, the terminal, and tools that help."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path
from typing import IO

from kvtool.cli.commands.doctor.item import DoctorItem, Status, first_line, shown_home
from kvtool.errors import INSTALL_ENGINE, KvtoolError, NotAvailableError
from kvtool.measure.engine_extra import need_engine
from kvtool.text.terminal.console import ColorChoice, ascii_only, find_width, make_console, wants_color
from kvtool.text.terminal.numbers import size
from kvtool.version import __version__

_VERSIONS = "Versions"
_EXTRA = "engine"
_TOOLS = {
    "git": "SARIF and GitLab reports need it for paths relative to the repository",
    "pytest": "kvtool's pytest plugin needs it",
}


def device() -> Iterator[DoctorItem]:
    """Yield the device of real runs, and its kernels."""
    section = "Device"
    try:
        need_engine("a real run")
    except NotAvailableError as error:
        status: Status = "missing" if error.hint == INSTALL_ENGINE else "note"
        yield DoctorItem(section, "real runs", f"{error.message}; everything else works", status, error.hint or "")
        return
    try:
        import torch

        from kvtool.engine.model.device import choose_kernels, device_name, find_device

        found = find_device("auto")
        if found.type != "cuda":
            built = torch.version.cuda or torch.version.hip
            why = "torch finds no GPU" if built else "this torch build supports CPUs only"
            yield DoctorItem(section, "GPU", f"none: {why}. Real runs use the CPU.")
            yield DoctorItem(section, "CPU", f"{os.cpu_count() or 1} cores, {torch.get_num_threads()} threads of torch")
            return
        properties = torch.cuda.get_device_properties(found)
        capability = f"compute capability {properties.major}.{properties.minor}"
        yield DoctorItem(section, "GPU", f"{device_name(found)}, {size(properties.total_memory)}, {capability}")
        chosen = choose_kernels(found)
        if chosen.triton:
            yield DoctorItem(section, "kernels", "Triton")
        else:
            yield DoctorItem(section, "kernels", f"torch: {chosen.shortfall}", "note")
    except Exception as error:  # drivers fail in ways of their own
        yield DoctorItem(section, "GPU", f"does not work: {first_line(error)}", "note", "use --device cpu")


def tokenizer(*, fix: bool = False) -> Iterator[DoctorItem]:
    """Yield the built-in tokenizer and its converted form; `fix` makes that now."""
    from kvtool.text.tokens.backends import open_backend
    from kvtool.text.tokens.tokenizer_files import built_in_files, find_tokenizer

    section = "Tokenizer"
    try:
        source, cache = built_in_files()
        yield DoctorItem(section, "built in", f"{source.name} (part of kvtool)")
    except KvtoolError as error:
        yield DoctorItem(section, "built in", error.message, "broken", error.hint or "")
        return
    except Exception as error:  # a package that is half there
        yield DoctorItem(section, "built in", f"cannot be read: {first_line(error)}", "broken", "reinstall kvtool")
        return
    try:
        if fix and not _size(cache):
            files = find_tokenizer(None, offline=True)
            files.read()
            open_backend(files)
        held = _size(cache)
    except Exception as error:
        yield DoctorItem(section, "cache", f"cannot be built: {first_line(error)}", "broken", "reinstall tokenizers")
        return
    folder = shown_home(cache.parent)
    if held:
        yield DoctorItem(section, "cache", f"{folder}, {size(held)}")
    elif fix:
        advice = "set XDG_CACHE_HOME to a writable folder"
        yield DoctorItem(
            section, "cache", f"{folder} is not writable: each run takes some seconds longer", "note", advice
        )
    else:
        value = f"not built yet (takes some seconds once); folder: {folder}"
        yield DoctorItem(section, "cache", value, "missing", "build it now: kvtool doctor --fix")


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def configuration() -> Iterator[DoctorItem]:
    """Yield the configuration file that commands here would read, and KVTOOL_* variables."""
    from kvtool.config.loading import read_config
    from kvtool.config.options.shown_options import Configured

    section = "Configuration"
    try:
        found = read_config(Configured())
        if found is None:
            yield DoctorItem(section, "file", "none (optional)", help="create one: kvtool init")
        else:
            yield DoctorItem(section, "file", shown_home(found.path))
    except KvtoolError as error:
        where = f"{error.place}: " if error.place is not None else ""
        yield DoctorItem(
            section, "file", shown_home(f"{where}{error.message}"), "note", error.hint or "see kvtool config"
        )
    variables = sorted(name for name in os.environ if name.startswith("KVTOOL_"))
    if variables:
        yield DoctorItem(section, "variables", ", ".join(variables), help="see their effect: kvtool config")


def terminal(stream: IO[str], color: ColorChoice, width: int | None, env: Mapping[str, str]) -> Iterator[DoctorItem]:
    """Yield the settings of the terminal, and their origins."""
    section = "Terminal"
    console = make_console(color=color, width=width, file=stream)
    drawn = "ASCII bars" if ascii_only(console) else "Unicode bars"
    advice = "set PYTHONUTF8=1 or LC_ALL=C.UTF-8" if ascii_only(console) else ""
    yield DoctorItem(section, "encoding", f"{console.encoding}: {drawn}", help=advice)
    columns = env.get("COLUMNS", "")
    source = "--width" if width is not None else "COLUMNS" if columns.isdigit() else "the terminal"
    if source == "the terminal" and not stream.isatty():
        source = "default, because the output is not a terminal"
    yield DoctorItem(section, "width", f"{width or find_width(stream, env)} columns ({source})")
    yield DoctorItem(
        section, "colour", f"{'on' if wants_color(color, stream, env) else 'off'} ({_color_reason(stream, color, env)})"
    )


def _color_reason(stream: IO[str], color: ColorChoice, env: Mapping[str, str]) -> str:
    """Return the rule that decides on colours; the order is that of `wants_color`."""
    if color != "auto":
        return f"--color {color}"
    for name in ("NO_COLOR", "CLICOLOR_FORCE", "FORCE_COLOR"):
        if env.get(name):
            return f"{name} is set"
    if not stream.isatty():
        return "the output is not a terminal"
    return "TERM is dumb" if env.get("TERM") == "dumb" else "the output is a terminal"


def tools() -> Iterator[DoctorItem]:
    """Yield optional tools."""
    for name, use in _TOOLS.items():
        there = shutil.which(name) is not None if name == "git" else find_spec(name) is not None
        if there:
            yield DoctorItem("Optional", name, "installed")
        else:
            yield DoctorItem("Optional", name, f"not installed: {use}", "missing", f"install {name}")


def items(*, fix: bool, color: ColorChoice, width: int | None) -> list[DoctorItem]:
    """Return all items, section by section. An error in one section keeps no other from being reported."""

    parts: tuple[tuple[str, Callable[[], Iterator[DoctorItem]]], ...] = (
        ("Versions", versions),
        ("Device", device),
        ("Tokenizer", lambda: tokenizer(fix=fix)),
        ("Configuration", configuration),
        ("Terminal", lambda: terminal(sys.stdout, color, width, os.environ)),
        ("Optional", tools),
    )
    found: list[DoctorItem] = []
    for section, part in parts:
        try:
            found += part()
        except Exception as error:  # whatever is broken here is what somebody wants to know
            found.append(DoctorItem(section, "error", first_line(error), "note"))
    return found


def versions() -> Iterator[DoctorItem]:
    """kvtool, Python, and every dependency; one that is not there is broken, one of another version is told.

    Those of the extra `engine` may be missing.
    """
    yield DoctorItem(_VERSIONS, "kvtool", __version__)
    system = f"{platform.system()} {platform.machine()}"
    yield DoctorItem(
        _VERSIONS, "python", f"{platform.python_version()}, {platform.python_implementation()} on {system}"
    )
    try:
        required = requires("kvtool") or []
    except PackageNotFoundError:
        yield DoctorItem(
            _VERSIONS,
            "dependencies",
            "unknown: kvtool is not installed",
            "note",
            "pip install -e . in the folder of kvtool",
        )
        return
    for requirement in required:
        name, marker = _split(requirement)
        if "extra ==" not in marker:
            yield _dependency(name, requirement)
        elif f'extra == "{_EXTRA}"' in marker.replace("'", '"'):
            yield _dependency(name, requirement, optional=True)


def _dependency(name: str, requirement: str, *, optional: bool = False) -> DoctorItem:
    wanted = requirement.partition(";")[0].strip()
    try:
        found = version(name)
    except PackageNotFoundError:
        if optional:
            return DoctorItem(_VERSIONS, name, "not installed; only real runs need it", "missing", INSTALL_ENGINE)
        return DoctorItem(_VERSIONS, name, "not installed", "broken", f"pip install '{wanted}'")
    if not _fits(found, requirement):
        return DoctorItem(_VERSIONS, name, f"{found}; kvtool needs {wanted}", "note", f"pip install '{wanted}'")
    return DoctorItem(_VERSIONS, name, found)


def _split(requirement: str) -> tuple[str, str]:
    """Return the name of a requirement, and its marker."""
    end = next((at for at, char in enumerate(requirement) if not (char.isalnum() or char in "._-")), len(requirement))
    return requirement[:end], requirement.partition(";")[2]


def _fits(found: str, requirement: str) -> bool:
    """Return whether a version meets a requirement; True where that is unknown."""
    try:
        from packaging.requirements import InvalidRequirement, Requirement
        from packaging.version import InvalidVersion
    except ImportError:
        return True
    try:
        return Requirement(requirement).specifier.contains(found, prereleases=True)
    except (InvalidRequirement, InvalidVersion):
        return True
