"""The text of a first workload file and of a first configuration."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import floor
from pathlib import Path

from kvtool.diagnose.codes.values.kv101 import KV101
from kvtool.engine.config import DEFAULT_MODEL, EngineConfig
from kvtool.errors import KvtoolError
from kvtool.lint.skeleton import style_of
from kvtool.text.files.text_files import read_text
from kvtool.text.templates.template import compile_template
from kvtool.text.terminal.numbers import percent

PLACEHOLDER = "placeholder"
"""The word that marks what is to be replaced, in values and in comments: a workload that has it has placeholders."""
_VALUES = 5
_RULES: tuple[tuple[re.Pattern[str], str, str], ...] = tuple(
    (re.compile(rf"(?:^|_)(?:{words})(?:_|$)"), value, why)
    for words, value, why in (
        ("now|date|time|today|timestamp|datetime|clock|at", "{datetime: 1m}", "a clock, one minute a request"),
        ("uuid|guid|id|nonce|token", "{uuid: 4}", "a random id"),
        ("n|num|number|count|index|turn|step|i", "{counter: 1}", "1, 2, 3…"),
        ("company|brand|product|app|agent|assistant|bot|model|team|version", "one", "always the same"),
    )
)


def generator(variable: str) -> tuple[str, str]:
    """Return the generator of a workload's variable as YAML, and the comment behind it."""
    word = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", variable).lower()
    for pattern, value, why in _RULES:
        if pattern.search(word):
            value = f"{{text: {_as_json(f'{PLACEHOLDER}: {variable}')}}}" if value == "one" else value
            return value, f"{PLACEHOLDER}: {why}"
    values = [f"{PLACEHOLDER}: {variable} {number}" for number in range(1, _VALUES + 1)]
    return f"{{choice: {_as_json(values)}}}", f"{PLACEHOLDER}: put real ones here"


def example(variable: str) -> str:
    """Return a text that such a generator may give, to try a template with."""
    value, _ = generator(variable)
    return "1" if value.startswith(("{counter", "{datetime", "{uuid")) else f"a {variable}"


def _as_json(value: str | list[str]) -> str:
    return json.dumps(value, ensure_ascii=False)


WORKLOAD = "kvtool-workload.yaml"
_REQUESTS = 40
_MESSAGE = "user_message"
_OF_PLACEHOLDERS = f"of {PLACEHOLDER}s"
_MOST_GROUPS = 20
"""Groups with a gate of their own, for a first configuration that a person reads."""


@dataclass(frozen=True, slots=True)
class FoundPrompt:
    """A template: its path, the variables that it needs, and whether it is taken as it is."""

    path: str
    variables: frozenset[str]
    raw: bool = False

    @property
    def stem(self) -> str:
        return os.path.basename(self.path).partition(".")[0]  # noqa: PTH119


def read_prompts(folder: Path, names: Sequence[str], notes: list[str]) -> list[FoundPrompt]:
    """Return the templates that a workload can render; `notes` get a line for each of the others."""
    prompts: list[FoundPrompt] = []
    for name in names:
        text = read_text(folder / name, shown=name)
        plain = not name.lower().endswith((".j2", ".jinja", ".jinja2"))
        try:
            template = compile_template(text, chat=False)
            template.render({variable: example(variable) for variable in template.variables})
            prompts.append(FoundPrompt(name, template.variables))
        except KvtoolError as error:
            if plain:
                prompts.append(FoundPrompt(name, frozenset(), raw=True))
            else:
                notes.append(f"{name} was left out: {error.message}")
            continue
        if plain and not template.variables and style_of(text) not in ("", "jinja"):
            notes.append(f"{name} has placeholders that are not Jinja; kvtool keeps them as text")
    return prompts


def compose_workload(prompts: Sequence[FoundPrompt]) -> str:
    """A workload file with a group for each prompt: as the system message before a placeholder, or what its name says it is."""
    pairs = _paired(prompts)
    variables = {name for prompt in prompts for name in prompt.variables}
    if any(user is None for _, user in pairs):
        variables.add(_MESSAGE)
    lines = ["# What your service sends, as kvtool profiles it: the prompts of this folder."]
    if variables:
        lines += [
            f"# What is marked as a {PLACEHOLDER} is nothing that you were asked: replace the value and its comment.",
            f"# Until then each hit rate is {_OF_PLACEHOLDERS}. A log of real requests needs none: kvtool profile prod.jsonl",
        ]
    lines += ["# How many requests there are is yours to say, too. For an editor: kvtool schema workload", "version: 1"]
    lines += ["vars:"] if variables else []
    for name in sorted(variables):
        value, why = generator(name)
        lines.append(f"  {name}: {value}  # {why}")
    lines.append("groups:")
    names: set[str] = set()
    for system, user in pairs:
        name = _free(prompts, system or user, names)
        lines += [f"  - name: {_text(name)}", f"    requests: {_REQUESTS}", "    messages:"]
        if system is not None:
            lines.append(_message("system", system))
        lines.append(
            f'      - {{role: user, text: "{{{{ {_MESSAGE} }}}}"}}' if user is None else _message("user", user)
        )
    return "\n".join(lines) + "\n"


def has_placeholders(workload: str) -> bool:
    """Return whether a workload file, one that was edited since too, has values that stand for real ones."""
    return any(f"# {PLACEHOLDER}: " in line or f'"{PLACEHOLDER}: ' in line for line in workload.splitlines())


def rate_comment(rate: float, *, placeholders: bool) -> str:
    """Return a hit rate as `init` shows it everywhere."""
    return f"hit rate {percent(rate)}" + (f" {_OF_PLACEHOLDERS}" if placeholders else "")


def _paired(prompts: Sequence[FoundPrompt]) -> list[tuple[FoundPrompt | None, FoundPrompt | None]]:
    """System and user prompts that belong together by their names, the others alone."""
    by_path = {prompt.path: prompt for prompt in prompts}
    users: dict[str, FoundPrompt] = {}
    for prompt in prompts:
        if "system" in prompt.path and (user := by_path.get(prompt.path.replace("system", "user"))) is not None:
            users[prompt.path] = user
    taken = {user.path for user in users.values()}
    pairs: list[tuple[FoundPrompt | None, FoundPrompt | None]] = []
    for prompt in prompts:
        if prompt.path in taken:
            continue
        alone_user = prompt.path not in users and "user" in prompt.stem.lower()
        pairs.append((None, prompt) if alone_user else (prompt, users.get(prompt.path)))
    return pairs


def _free(prompts: Sequence[FoundPrompt], prompt: FoundPrompt | None, taken: set[str]) -> str:
    """Return a name for a group: the file's, with as much of its folders as makes it the only one."""
    assert prompt is not None
    parts = [*prompt.path.split("/")[:-1], prompt.stem or "prompt"]
    candidates = ["-".join(parts[-length:]).strip() or "prompt" for length in range(1, len(parts) + 1)]
    candidates += [f"{candidates[-1]}-{number}" for number in range(2, len(prompts) + 2)]
    name = next(candidate for candidate in candidates if candidate not in taken)
    taken.add(name)
    return name


def _message(role: str, prompt: FoundPrompt) -> str:
    raw = ", raw: true" if prompt.raw else ""
    return f"      - {{role: {role}, file: {_text(prompt.path)}{raw}}}"


def compose_config(
    rates: Mapping[str, float],
    *,
    groups: Mapping[str, float],
    engine: Mapping[str, str | int],
    placeholders: Collection[str] = (),
    table: str = "",
) -> str:
    """Return a configuration: the workloads with their hit rates of today, and gates at those.

    `engine` is what they were measured with. `table` is where it stands, `tool.kvtool` in pyproject.toml; `groups` are hit rates,
    the lowest where several workloads have a group of that name; `placeholders` are those workloads whose rates are of such.
    """
    head = [f"[{table}]"] if table else []
    prefix = f"{table}." if table else ""
    said = [f"{name} = {_text(value) if isinstance(value, str) else value}" for name, value in engine.items()]
    examples = {
        "model": f'"{DEFAULT_MODEL}"',
        "tokenizer": '"./tokenizer.json"',
        "block_size": EngineConfig.block_size,
        "capacity": '"20GiB"',
    }
    unsaid = [f"# {name} = {value}" for name, value in examples.items() if name not in engine]
    return "\n".join(
        [
            *head,
            "# Settings of kvtool for this folder. `kvtool config` shows all settings, `kvtool schema config` what each may be.",
            "workloads = [",
            *(
                f"  {_text(path)},  # {rate_comment(rate, placeholders=path in placeholders)}"
                for path, rate in rates.items()
            ),
            "]",
            "",
            f"[{prefix}engine]  # what your server runs with; flags, KVTOOL_* variables and workload files go first",
            *said,
            *unsaid,
            "",
            *_gates(rates, groups, prefix, placeholders),
            "",
        ]
    )


def _gates(
    rates: Mapping[str, float], groups: Mapping[str, float], prefix: str, placeholders: Collection[str]
) -> list[str]:
    """Today's lowest rate, and today's rate of the groups that reach more; a fall below them fails the build."""
    lowest = _whole(min(rates.values()))
    better = [(name, _whole(rate)) for name, rate in groups.items() if _whole(rate) > lowest]
    notes = [f"# The rates are {_OF_PLACEHOLDERS}: set them again when the values are real."]
    lines = [
        f"[{prefix}gate]  # the limit of each workload for `kvtool check`: today's hit rate, rounded down",
        "# After prompts improve, run `kvtool check --tighten`: it raises this limit, and never lowers it.",
        *(notes if any(name in placeholders for name in rates) else []),
        f'hit_rate = ">={lowest}%"' + ("" if lowest else "  # nothing hits today: `kvtool lint` says why"),
        'level = "error"  # a lower rate fails the build; "warn" only warns',
        f'# findings = {{{KV101.code} = "error", warning = "warn"}}',
    ]
    for name, share in sorted(better, key=lambda pair: -pair[1])[:_MOST_GROUPS]:
        lines += ["", f"[{prefix}gate.groups.{_key(name)}]", f'hit_rate = ">={share}%"']
    if not better:
        lines += ["", f"# [{prefix}gate.groups.{_key(next(iter(groups), 'support'))}]", '# hit_rate = ">=80%"']
    return lines


def _whole(rate: float) -> int:
    """Percent, rounded down."""
    return floor(100 * rate)


def _key(name: str) -> str:
    bare = name.isascii() and name.replace("-", "").replace("_", "").isalnum()
    return name if bare else _text(name)


def _text(text: str) -> str:
    """Return a text in double quotes, as YAML and TOML both read it."""
    return json.dumps(text, ensure_ascii=False)
