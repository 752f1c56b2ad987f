"""Every option with its value and where that comes from; what `kvtool config` shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from pydantic import BaseModel

from kvtool.config.declared import in_table
from kvtool.config.file_model import EngineOptions, GateOptions
from kvtool.config.layers import hidden_by
from kvtool.config.loading import ConfigFile
from kvtool.config.option import Table, Value
from kvtool.engine.prediction.accelerators import find_accelerator
from kvtool.errors import Place
from kvtool.text.files.yaml_document import Path, YamlDocument
from kvtool.text.files.yaml_nodes import Scalar
from kvtool.workload.yaml.schema import Workload

Kind = Literal["flag", "variable", "workload", "config", "default"]
Given = Mapping[str, tuple[object, str]]
"""Options from flags and variables: by name, the value and the flag or variable."""

_TOP = ("seed", "requests", "group_by", "offline", "show_text", "color", "width")
"""The options at the top, in the order in which they are shown."""


@dataclass(frozen=True, slots=True)
class ValueOrigin:
    """Origin of a value; `name` is a flag or a variable, `place` a line of a file."""

    kind: Kind
    name: str | None = None
    place: Place | None = None

    def __str__(self) -> str:
        if self.place is not None:
            return self.place.path if self.place.line is None else f"{self.place.path}:{self.place.line}"
        return self.name or self.kind


@dataclass(frozen=True, slots=True)
class OptionValue:
    """An option, its value as it was written, and where that comes from. `words` are for a default that is no value."""

    name: str
    value: Value
    origin: ValueOrigin
    words: str = ""


@dataclass(frozen=True, slots=True)
class WorkloadFile:
    """A workload file, as far as it says options."""

    document: YamlDocument
    spec: Workload

    def said(self, path: Path) -> Value:
        """Return the value at a path: numbers and truth values as such, everything else as it was written."""
        node = self.document.find(path)
        assert isinstance(node, Scalar)
        return node.value

    def origin(self, path: Path) -> ValueOrigin:
        return ValueOrigin("workload", place=self.document.place(path))


def option_values(given: Given, workload: WorkloadFile | None, file: ConfigFile | None) -> list[OptionValue]:
    """Return all options, those of groups only where something is demanded of them."""
    found = [
        _named(file, "workloads"),
        *_top(given, workload, file),
        *_of_accelerator(list(_engine(given, workload, file))),
    ]
    if file is not None:
        found += _gate(file, ("gate",), file.config.gate)
        for name, group in sorted(file.config.gate.groups.items()):
            found += _gate(file, ("gate", "groups", name), group)
        logs = file.config.logs
        found += [
            OptionValue(f"logs.{name}", getattr(logs, name), ValueOrigin("config", place=file.place("logs", name)))
            for name in type(logs).model_fields
            if name in logs.model_fields_set
        ]
    found += _gates_of(workload)
    found += _table(file, "check", None if file is None else file.config.check)
    found.append(_named(file, "lint", "inputs"))
    found += _table(file, "lint", None if file is None else file.config.lint)
    return found


def _top(given: Given, workload: WorkloadFile | None, file: ConfigFile | None) -> Iterator[OptionValue]:
    declared = in_table("")
    for name in _TOP:
        value, words = declared[name]
        if name in given:
            yield _of_flag(name, name, given)
        elif name == "seed" and workload is not None and "seed" in workload.spec.model_fields_set:
            yield OptionValue(name, workload.spec.seed, workload.origin(("seed",)))
        elif file is not None and name in file.config.model_fields_set:
            yield OptionValue(name, getattr(file.config, name), ValueOrigin("config", place=file.place(name)))
        else:
            yield OptionValue(name, value, ValueOrigin("default"), words)


def _engine(given: Given, workload: WorkloadFile | None, file: ConfigFile | None) -> Iterator[OptionValue]:
    flags = {name for name in given if name in EngineOptions.model_fields}
    in_workload = set() if workload is None else workload.spec.engine.model_fields_set
    hidden = hidden_by(flags | in_workload)
    for name, (default, words) in in_table("engine").items():
        full = f"engine.{name}"
        if name in flags:
            yield _of_flag(full, name, given)
        elif workload is not None and name in in_workload:
            value: Value = getattr(workload.spec.engine, name)
            if not isinstance(value, str | bool | int) or name == "gpu_memory":
                value = workload.said(("engine", name))
            yield OptionValue(full, value, workload.origin(("engine", name)))
        elif file is not None and name in file.config.engine.model_fields_set and name not in hidden:
            yield OptionValue(
                full, _written(file, "engine", name), ValueOrigin("config", place=file.place("engine", name))
            )
        else:
            yield OptionValue(full, default, ValueOrigin("default"), words)


def _of_accelerator(found: list[OptionValue]) -> list[OptionValue]:
    """Return the options of an engine, with the limits of a step that vLLM has on the accelerator where one is named."""
    named = next(each for each in found if each.name == "engine.accelerator")
    if named.origin.kind == "default":
        return found
    limits = {
        f"engine.{name}": value for name, value in find_accelerator(str(named.value)).batch_limits._asdict().items()
    }
    return [
        replace(each, value=limits[each.name]) if each.name in limits and each.origin.kind == "default" else each
        for each in found
    ]


def _of_flag(full: str, name: str, given: Given) -> OptionValue:
    value, where = given[name]
    assert isinstance(value, str | int | float | bool)
    return OptionValue(full, value, ValueOrigin("flag" if where.startswith("-") else "variable", where))


def _written(file: ConfigFile, *path: str) -> Value:
    value = file.found(path)
    assert isinstance(value, str | int | float | bool)
    return value


def _named(file: ConfigFile | None, *key: str) -> OptionValue:
    """Return the files that a key of the configuration names."""
    name, value = ".".join(key), None if file is None else file.found(key)
    if file is None or not isinstance(value, list) or not value:
        return OptionValue(name, None, ValueOrigin("default"), "none")
    return OptionValue(name, list(value), ValueOrigin("config", place=file.place(*key)))


def _gate(file: ConfigFile, path: tuple[str, ...], gate: GateOptions) -> Iterator[OptionValue]:
    for name in sorted(gate.model_fields_set - {"findings", "groups"}):
        yield OptionValue(
            ".".join((*path, name)), _written(file, *path, name), ValueOrigin("config", place=file.place(*path, name))
        )
    for key, level in sorted(gate.findings.items()):
        place = file.place(*path, "findings", key)
        yield OptionValue(".".join((*path, "findings", key)), str(level), ValueOrigin("config", place=place))


def _gates_of(workload: WorkloadFile | None) -> Iterator[OptionValue]:
    """Return the gates in the workload file; they hold beside those of the configuration."""
    for number, group in enumerate(() if workload is None else workload.spec.groups):
        if workload is None or group.gate is None:
            continue
        at: Path = ("groups", number, "gate")
        for name in sorted(group.gate.model_fields_set - {"findings"}):
            path = (*at, name)
            yield OptionValue(f"gate.groups.{group.name}.{name}", workload.said(path), workload.origin(path))
        for key, level in sorted(group.gate.findings.items()):
            path = (*at, "findings", key)
            yield OptionValue(f"gate.groups.{group.name}.findings.{key}", str(level), workload.origin(path))


def _table(file: ConfigFile | None, table: Table, options: BaseModel | None) -> Iterator[OptionValue]:
    for name, (default, words) in in_table(table).items():
        if file is not None and options is not None and name in options.model_fields_set:
            value = file.found((table, name))
            assert isinstance(value, str | int | float | bool | list)
            yield OptionValue(f"{table}.{name}", value, ValueOrigin("config", place=file.place(table, name)))
        else:
            yield OptionValue(f"{table}.{name}", default, ValueOrigin("default"), words)
