"""The text of a first workload file and of a first configuration."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import floor
from pathlib import Path

from kvtool.cli.init.guess import example, generator
from kvtool.diagnose.codes.kv101 import KV101
from kvtool.engine.config import DEFAULT_MODEL, EngineConfig
from kvtool.errors import KvtoolError
from kvtool.lint.skeleton import style_of
from kvtool.text.files.text_files import read_text
from kvtool.text.templates.template import compile_template
from kvtool.text.terminal.numbers import percent

WORKLOAD = "kvtool-workload.yaml"
_REQUESTS = 40
_QUESTION = "question"
_WANTED = 50
"""Percent that a first gate warns below where next to nothing hits today."""
_NOTHING = 10
"""Percent below which a hit rate is nothing to hold."""
_MOST_GROUPS = 20


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
    """Those templates that a workload can render; `notes` get a line for each of the others."""
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
            notes.append(f"{name} has placeholders that are not Jinja: they are taken as they stand")
    return prompts


def compose_workload(prompts: Sequence[FoundPrompt]) -> str:
    """A workload file with a group for each prompt: as the system message before a question, or what its name says it is."""
    variables = {_QUESTION} | {name for prompt in prompts for name in prompt.variables}
    lines = [
        "# What your service sends, as kvtool profiles it: the prompts of this folder, with made-up values in their variables.",
        "# Real values, and how many requests share them, make the figures yours. For an editor: kvtool schema workload",
        "version: 1",
        "vars:",
    ]
    for name in sorted(variables):
        value, why = generator(name)
        lines += [f"  {name}: {value}  # {why}"]
    lines.append("groups:")
    names: set[str] = set()
    for system, user in _paired(prompts):
        name = _free(prompts, system or user, names)
        lines += [f"  - name: {_text(name)}", f"    requests: {_REQUESTS}", "    messages:"]
        if system is not None:
            lines.append(_message("system", system))
        lines.append(
            f'      - {{role: user, text: "{{{{ {_QUESTION} }}}}"}}' if user is None else _message("user", user)
        )
    return "\n".join(lines) + "\n"


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
    """A name for a group: the file's, with as much of its folders as makes it the only one."""
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
    rates: Mapping[str, float], *, groups: Mapping[str, float], engine: Mapping[str, str | int], table: str = ""
) -> str:
    """A configuration: the workloads with their hit rates of today, and gates just below those.

    `engine` is what they were measured with. `table` is where it stands, `tool.kvtool` in pyproject.toml; `groups` are hit rates,
    the lowest where several workloads have a group of that name.
    """
    lowest = floor(100 * min(rates.values()))
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
            "# Settings of kvtool for this folder. `kvtool config` shows all of them, `kvtool schema config` what each may be.",
            "workloads = [",
            *(f"  {_text(path)},  # hit rate {percent(rate)}" for path, rate in rates.items()),
            "]",
            "",
            f"[{prefix}engine]  # what your server runs with; flags, KVTOOL_* variables and workload files go first",
            *said,
            *unsaid,
            "",
            f"[{prefix}gate]  # what `kvtool check` demands of each workload",
            *_gates(lowest, groups, prefix),
            "",
        ]
    )


def _gates(lowest: int, groups: Mapping[str, float], prefix: str) -> list[str]:
    """Today's lowest rate; where that is next to nothing, a warning for all; and today's rate of the groups that reach more."""
    findings = f'# findings = {{{KV101.code} = "error", warning = "warn"}}'
    held = {name: floor(100 * rate) for name, rate in groups.items()}
    if lowest >= _NOTHING:
        lines, level = [f'hit_rate = ">={lowest}%"', findings], []
    else:
        lines = [
            f'hit_rate = ">={_WANTED}%"  # little to hold today: a warning until it is mended (see `kvtool lint`)',
            'level = "warn"  # then "error", which fails the build',
            findings,
        ]
        level = ['level = "error"']
    better = [(name, share) for name, share in held.items() if share > max(lowest, _NOTHING - 1)]
    for name, share in sorted(better, key=lambda pair: -pair[1])[:_MOST_GROUPS]:
        lines += ["", f"[{prefix}gate.groups.{_key(name)}]", f'hit_rate = ">={share}%"', *level]
    if not better:
        lines += ["", f"# [{prefix}gate.groups.{_key(next(iter(groups), 'support'))}]", '# hit_rate = ">=80%"']
    return lines


def _key(name: str) -> str:
    bare = name.isascii() and name.replace("-", "").replace("_", "").isalnum()
    return name if bare else _text(name)


def _text(text: str) -> str:
    """A text in double quotes, as YAML and TOML both read it."""
    return json.dumps(text, ensure_ascii=False)
