"""A document against the schema: all its mistakes at once, each with its place and in words for the user."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Protocol, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from kvtool.errors import KvtoolError, Place, ProblemsError
from kvtool.text.files.yaml_document import Path, YamlDocument
from kvtool.text.files.yaml_nodes import Mapping, Scalar, Sequence, YamlNode
from kvtool.workload.yaml.fields import KnownCodes, described
from kvtool.workload.yaml.key_checks import Problem, check
from kvtool.workload.yaml.schema import Workload

MAX_PROBLEMS = 20  # that one run names
_LONGEST_KEY = 60  # characters of a key that a message quotes


class Placed(Protocol):
    """A document whose values can be found again in its source."""

    def found(self, path: Path) -> object:
        """Return the value at `path`, as it was given to the model; None where there is none."""
        ...

    def place(self, path: Path, *, key: bool = False) -> Place:
        """Return the place of a value, of its key, or of the nearest thing around it."""
        ...


class _Yaml:
    """A YAML document as one."""

    def __init__(self, document: YamlDocument) -> None:
        self._document = document
        self.place = document.place

    def found(self, path: Path) -> object:
        node = self._document.find(path)
        return node if node is None or isinstance(node, Scalar) else to_data(node)


def validate(document: YamlDocument, codes: KnownCodes | None = None) -> Workload:
    """Return the workload of a document; KvtoolError for one mistake, ProblemsError for several (the first twenty).

    `codes` are those that gates may name; without them only the shape of a code is looked at.
    """
    data = to_data(document.root)
    assert isinstance(data, dict)
    placed = _Yaml(document)
    problems = [*document.problems, *(_error(problem, placed) for problem in check(data))]
    try:
        workload = Workload.model_validate(data, context=codes)
    except ValidationError as error:
        problems += in_words(error, Workload, placed)
    else:
        if not problems:
            return workload
    raise_problems(problems)
    raise AssertionError("unreachable")


def in_words(error: ValidationError, model: type[BaseModel], document: Placed) -> list[KvtoolError]:
    """Return the errors of pydantic for the user, with their places; `model` is what the whole document was to be."""
    details = error.errors(include_url=False, include_input=False)
    return [_error(_problem(detail, model, document), document) for detail in details]


def raise_problems(problems: list[KvtoolError]) -> None:
    """Raise what was found, in the order of their places; nothing where there is nothing."""
    unique = {(str(problem.place), problem.message): problem for problem in problems}
    ordered = sorted(unique.values(), key=_order)
    if len(ordered) == 1:
        raise ordered[0]
    if ordered:
        raise ProblemsError(ordered[:MAX_PROBLEMS])


def _order(problem: KvtoolError) -> tuple[str, int, int]:
    place = problem.place
    return (place.path, place.line or 0, place.column or 0) if place else ("", 0, 0)


def to_data(node: YamlNode) -> object:
    """Return the tree as dicts and lists whose leaves are `Scalar`s."""
    if isinstance(node, Mapping):
        return {key: to_data(value) for key, value in node.values.items()}
    if isinstance(node, Sequence):
        return [to_data(item) for item in node.items]
    return node


def path_text(path: Path) -> str:
    """Return a path as `groups[0].messages[1]`."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".")


def _error(problem: Problem, document: Placed) -> KvtoolError:
    return KvtoolError(problem.message, hint=problem.hint, place=document.place(problem.path, key=problem.at_key))


def _problem(detail: ErrorDetails, model: type[BaseModel], document: Placed) -> Problem:
    path: Path = tuple(detail["loc"])
    context = detail.get("ctx", {})
    kind = detail["type"]
    if kind == "extra_forbidden":
        return _unknown_key(path, model)
    if kind == "missing":
        return Problem(path[:-1], f"`{path[-1]}` is missing{_within(path[:-1])}", at_key=True)
    at_key = path[-1:] == (_KEY_OF_DICT,)
    path = path[:-1] if at_key else path
    where = path_text(path[:-1] if at_key else path)
    got = described(document.found(path))
    hint = None
    if kind == "kvtool":
        message, hint = str(context["message"]), context["hint"]
    elif kind == "literal_error":
        allowed = re.findall(r"'([^']*)'", str(context["expected"]))
        message, hint = f"expected {_either(allowed)}, got {got}", did_you_mean(got.strip("`"), allowed)
    elif kind in _BOUNDS:
        words, key = _BOUNDS[kind]
        message = f"must be {words} {context[key]:,}, got {got}"
    elif kind == "too_short":
        message = "must not be empty" if context["min_length"] == 1 else f"needs {context['min_length']} entries"
    elif kind == "too_long":
        message = f"has more than {context['max_length']} entries"
    elif kind in ("list_type", "dict_type", "model_type", "model_attributes_type"):
        message = f"expected {'a list' if kind == 'list_type' else 'a mapping'}, got {got}"
    else:
        message = detail["msg"]
    return Problem(path, f"{where}: {message}", hint, at_key)


_KEY_OF_DICT = "[key]"
"""What pydantic appends to the path where the key of a mapping is wrong, not its value."""
_BOUNDS = {
    "greater_than_equal": ("at least", "ge"),
    "greater_than": ("above", "gt"),
    "less_than_equal": ("at most", "le"),
    "less_than": ("below", "lt"),
}


def _unknown_key(path: Path, model: type[BaseModel]) -> Problem:
    key = str(path[-1])
    hint = did_you_mean(key[:_LONGEST_KEY], _known_keys(path[:-1], model))
    if key == "<<":
        hint = "write `&name` at a value and repeat it with `*name`; YAML 1.2 has no merge keys"
    shown = key if len(key) <= _LONGEST_KEY else f"{key[:_LONGEST_KEY]}…"
    return Problem(path, f"unknown key `{shown}`{_within(path[:-1])}", hint, at_key=True)


def did_you_mean(word: str, known: list[str]) -> str | None:
    """Return a hint with the nearest of the known words, or with all of them where they are few."""
    close = get_close_matches(word, known, n=1, cutoff=0.6)
    if close:
        return f"did you mean `{close[0]}`?"
    return f"known here: {', '.join(known)}" if 0 < len(known) <= 24 else None


def _known_keys(path: Path, model: type[BaseModel]) -> list[str]:
    for step in path:
        if isinstance(step, int):
            continue
        found = next((item for name, item in model.model_fields.items() if step in (name, item.alias)), None)
        inner = _model_in(found.annotation) if found else None
        model = inner or model  # a step that names no field is the name of a variable: the mapping's model is current
    return [field.alias or name for name, field in model.model_fields.items()]


def _model_in(annotation: object) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _model_in(part))), None)


def _within(path: Path) -> str:
    return f" in {path_text(path)}" if path else ""


def _either(words: list[str]) -> str:
    quoted = [f"`{word}`" for word in words]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"
