"""Checks of keys that go together in a workload file: plain functions in a visible list, run on the data before and beside its
types."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from kvtool.results.choices import SIZES
from kvtool.text.files.yaml_document import Path
from kvtool.text.files.yaml_nodes import Scalar

Data = dict[str, object]

TEXTS = ("text", "file", "glob")
CONTENTS = ("messages", "segments", *TEXTS, "generate", "import")
LOGS = ("jsonl", "json", "txt", "mooncake")
VARIABLES = (
    "datetime",
    "uuid",
    "counter",
    "choice",
    "file",
    "range",
    "text",
    "bool",
    "object",
    "list",
    "items",
    "function",
)
_COMPANIONS = {
    "start": ("datetime",),
    "format": ("datetime", "counter"),
    "step": ("counter",),
    "weights": ("choice",),
    "key": ("file",),
    "pick": ("choice", "file", "range"),
    "count": ("list",),
    "orders": ("items",),
}
_BELONGS = {
    "requests": ("messages", "segments", *TEXTS),
    "tools": ("messages",),
    "cache_control": ("messages",),
    "sessions": ("messages",),
    "join": ("segments",),
    "raw": TEXTS,
    "pick": ("glob",),
    "arrival": ("messages", "segments", *TEXTS, "generate"),
    "output": ("messages", "segments", *TEXTS),
    "output_tokens": ("messages", "segments", *TEXTS),
}
_ELSEWHERE = {
    ("output_tokens", "generate"): "write it inside `generate`",
    ("requests", "generate"): "there are `prefixes` times `per_prefix` requests",
    ("requests", "import"): "use `limit`",
    ("arrival", "import"): "a log has its own timestamps",
    ("raw", "messages"): "write it in the message",
    ("raw", "segments"): "write it in the segment",
}


class Problem(NamedTuple):
    path: Path
    message: str
    hint: str | None = None
    at_key: bool = False


def check(data: Data) -> Iterator[Problem]:
    """Yield every problem of every check."""
    yield from _variables(data.get("vars"), ("vars",))
    engine = data.get("engine")
    sizes = [name for name in SIZES if name in engine] if isinstance(engine, dict) else []
    if len(sizes) > 1:
        message = f"`{sizes[0]}` and `{sizes[1]}` both set the size of the cache"
        yield Problem(("engine", sizes[1]), message, "remove one", True)
    groups = data.get("groups")
    yield from _unique_names(groups)
    for number, group in enumerate(groups if isinstance(groups, list) else []):
        if isinstance(group, dict):
            path: Path = ("groups", number)
            yield from _variables(group.get("vars"), (*path, "vars"))
            for checker in GROUP_CHECKS:
                yield from checker(group, path)


def _unique_names(groups: object) -> Iterator[Problem]:
    seen: dict[str, int] = {}
    for number, group in enumerate(groups if isinstance(groups, list) else []):
        name = group.get("name") if isinstance(group, dict) else None
        if isinstance(name, Scalar):
            if name.value in seen:
                hint = f"groups[{seen[name.value]}] has the same name"
                yield Problem(("groups", number, "name"), f"two groups are named `{name.value}`", hint)
            seen.setdefault(name.value, number)


def _one_content(group: Data, path: Path) -> Iterator[Problem]:
    name = f"groups[{path[-1]}]"
    present = [key for key in group if key in CONTENTS]
    if not present and "sessions" in group:
        yield Problem(
            (*path, "sessions"),
            f"`sessions` in {name} needs `messages`",
            "every turn sends its last user message",
            True,
        )
    elif not present:
        yield Problem(path, f"{name} has no prompts", f"give it one of {', '.join(CONTENTS)}", True)
    for key in present[1:]:
        yield Problem((*path, key), f"`{present[0]}` and `{key}` in {name} exclude each other", None, True)
    if len(present) != 1:
        return
    for key, contents in _BELONGS.items():
        if key in group and present[0] not in contents:
            hint = _ELSEWHERE.get((key, present[0]), f"it goes with {', '.join(contents)}")
            yield Problem((*path, key), f"`{key}` has no effect with `{present[0]}` in {name}", hint, True)


def _parts(group: Data, path: Path) -> Iterator[Problem]:
    seen: set[str] = set()
    for kind in ("messages", "segments"):
        parts = group.get(kind)
        for number, part in enumerate(parts if isinstance(parts, list) else []):
            if not isinstance(part, dict):
                continue
            where: Path = (*path, kind, number)
            name = f"{kind}[{number}]"
            present = [key for key in part if key in TEXTS]
            if not present:
                yield Problem(where, f"{name} has no text", "give it one of text, file, glob", True)
            for key in present[1:]:
                yield Problem((*where, key), f"`{present[0]}` and `{key}` in {name} exclude each other", None, True)
            if "pick" in part and "glob" not in part:
                yield Problem((*where, "pick"), f"`pick` in {name} needs `glob`", None, True)
            if _true(part.get("stable")) and _true(part.get("volatile")):
                yield Problem((*where, "volatile"), f"{name} cannot be both `stable` and `volatile`", None, True)
            identity = part.get("id")
            if isinstance(identity, Scalar):
                if identity.value in seen:
                    yield Problem((*where, "id"), f"two segments have the id `{identity.value}`")
                seen.add(identity.value)


def _sessions(group: Data, path: Path) -> Iterator[Problem]:
    sessions = group.get("sessions")
    if not isinstance(sessions, dict):
        return
    if "requests" in group:
        yield Problem(
            (*path, "requests"),
            "`requests` and `sessions` exclude each other",
            "`sessions` has `count` and `turns`",
            True,
        )
    if "output_tokens" in group:
        yield Problem(
            (*path, "output_tokens"),
            "with `sessions`, set the length of answers there",
            "move it into `sessions`",
            True,
        )
    if "output" in group and "output_tokens" in sessions:
        yield Problem((*path, "sessions", "output_tokens"), "`output` already sets the length of answers", None, True)
    if "arrival" in group and "order" in sessions:
        yield Problem((*path, "sessions", "order"), "`arrival` already sets the order of sessions", None, True)
    messages = group.get("messages")
    if isinstance(messages, list) and messages and isinstance(messages[-1], dict):
        role = messages[-1].get("role")
        if isinstance(role, Scalar) and role.value != "user":
            where: Path = (*path, "messages", len(messages) - 1, "role")
            yield Problem(
                where,
                "with `sessions`, the last message must be the user's",
                "every turn sends it",
            )


def _arrival(group: Data, path: Path) -> Iterator[Problem]:
    arrival = group.get("arrival")
    if isinstance(arrival, dict):
        process = arrival.get("process")
        if isinstance(process, Scalar):
            if process.value == "burst" and "burst" not in arrival:
                yield Problem(
                    (*path, "arrival"),
                    "process `burst` needs `burst`, the number of requests at once",
                    None,
                    True,
                )
            if process.value != "burst" and "burst" in arrival:
                yield Problem((*path, "arrival", "burst"), "`burst` goes with process `burst`", None, True)


def _generate(group: Data, path: Path) -> Iterator[Problem]:
    generate = group.get("generate")
    if isinstance(generate, dict):
        lengths = [generate.get("prefix_tokens"), generate.get("suffix_tokens")]
        if all(isinstance(length, Scalar) and length.value == "0" for length in lengths):
            yield Problem((*path, "generate"), "the generated prompts would be empty", None, True)


def _import(group: Data, path: Path) -> Iterator[Problem]:
    source = group.get("import")
    if isinstance(source, dict):
        present = [key for key in source if key in LOGS]
        if not present:
            yield Problem((*path, "import"), "`import` names no files", f"give it one of {', '.join(LOGS)}", True)
        for key in present[1:]:
            yield Problem(
                (*path, "import", key),
                f"`{present[0]}` and `{key}` exclude each other",
                "make two groups",
                True,
            )


def _variables(variables: object, path: Path) -> Iterator[Problem]:
    for name, variable in variables.items() if isinstance(variables, dict) else ():
        where: Path = (*path, name)
        if not name.isidentifier():
            yield Problem(
                where,
                f"`{name}` cannot be a variable name",
                "use letters, digits and `_`; do not begin with a digit",
                True,
            )
        yield from _variable(variable, where, name)


def _variable(variable: object, where: Path, name: str, *, nested: bool = False) -> Iterator[Problem]:
    if not isinstance(variable, dict):
        return
    present = [key for key in variable if key in VARIABLES]
    if not present:
        yield Problem(where, f"variable `{name}` has no values", f"give it one of {', '.join(VARIABLES)}", True)
    for key in present[1:]:
        yield Problem((*where, key), f"`{present[0]}` and `{key}` of variable `{name}` exclude each other", None, True)
    for key, owners in _COMPANIONS.items():
        if key in variable and present and present[0] not in owners:
            yield Problem((*where, key), f"`{key}` of variable `{name}` goes with {' or '.join(owners)}", None, True)
    choice, weights = variable.get("choice"), variable.get("weights")
    if isinstance(choice, list) and isinstance(weights, list) and len(choice) != len(weights):
        yield Problem((*where, "weights"), f"{len(choice)} choices but {len(weights)} weights", None, True)
    if "weights" in variable and "pick" in variable:
        yield Problem(
            (*where, "pick"), "`weights` and `pick` exclude each other", "weights are for a random pick", True
        )
    if nested and "per" in variable:
        hint = "write it at the variable that contains this one"
        yield Problem((*where, "per"), f"`per` of `{name}` has no meaning here", hint, True)
    fields, items = variable.get("object"), variable.get("items")
    below: list[tuple[Path, str, object]] = [((key,), name, variable.get(key)) for key in ("list", "function")]
    below += (
        [(("object", key), f"{name}.{key}", one) for key, one in fields.items()] if isinstance(fields, dict) else []
    )
    below += [(("items", at), f"{name}[{at}]", one) for at, one in enumerate(items)] if isinstance(items, list) else []
    for path, inner, one in below:
        yield from _variable(one, (*where, *path), inner, nested=True)


def _true(value: object) -> bool:
    return isinstance(value, Scalar) and value.value.lower() == "true"


GROUP_CHECKS: list[Callable[[Data, Path], Iterator[Problem]]] = [
    _one_content,
    _parts,
    _sessions,
    _arrival,
    _generate,
    _import,
]
