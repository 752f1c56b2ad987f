"""The text of a first configuration: the workloads with their hit rates of today, gates at those, and what to lint."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal

from kvtool.diagnose.codes.values.kv101 import KV101
from kvtool.engine.config import DEFAULT_MODEL, EngineConfig
from kvtool.gate.config_text import MOST_GROUPS, gate_of_all, group_gate, one_line, ungated_groups
from kvtool.results.gate_words import gate_percent
from kvtool.text.terminal.numbers import percent


def rate_comment(rate: float, *, made_up: bool) -> str:
    """Return a hit rate as `init` shows it everywhere."""
    return f"hit rate {percent(rate)}" + (" with made-up values" if made_up else "")


def compose_config(
    rates: Mapping[str, float],
    *,
    groups: Mapping[str, float],
    losses: Mapping[str, str],
    engine: Mapping[str, str | int],
    made_up: Collection[str] = (),
    sources: Sequence[str] = (),
    table: str = "",
    rules: str = "",
    hosted: bool = False,
) -> str:
    """Return a configuration: the workloads with their hit rates of today, gates at those, and the `sources` to lint.

    `engine` is what they were measured with. `table` is where it is, `tool.kvtool` in pyproject.toml; `groups` are hit rates,
    the lowest where several workloads have a group of that name; `losses` name the line of each workload that loses most;
    `made_up` are workloads with made-up values; `rules` says which rules of a cache were used, and why;
    `hosted`: a provider's cache serves a workload, so a model's or a server's settings are no examples.
    """
    head = [f"[{table}]"] if table else []
    prefix = f"{table}." if table else ""
    said = [f"{name} = {quoted(value) if isinstance(value, str) else value}" for name, value in engine.items()]
    examples = {
        "model": f'"{DEFAULT_MODEL}"',
        "tokenizer": '"./tokenizer.json"',
        "block_size": EngineConfig.block_size,
        "capacity": '"20GiB"',
    }
    if hosted or "provider" in engine:  # it goes with none of them but the tokenizer
        examples = {"tokenizer": examples["tokenizer"]}
    unsaid = [f"# {name} = {value}" for name, value in examples.items() if name not in engine]
    return "\n".join(
        [
            *head,
            "# Settings of kvtool for this folder. All settings: kvtool config. Their values: kvtool schema config.",
            "workloads = [",
            *(
                f"  {quoted(path)},  # {one_line(rate_comment(rate, made_up=path in made_up))}"
                for path, rate in rates.items()
            ),
            "]",
            "",
            f"[{prefix}engine]  # of your server; flags, KVTOOL_* variables and workload files override it",
            *([f"# {one_line(rules)}"] if rules else []),
            *said,
            *unsaid,
            "",
            *_gates(rates, groups, losses, prefix, made_up),
            "",
            *_lint(sources, prefix),
        ]
    )


def gated_groups(
    rates: Mapping[str, float], groups: Mapping[str, float]
) -> tuple[list[tuple[str, Decimal]], list[str]]:
    """Return the groups that get a limit of their own, in percent, the highest first, and those that reuse nothing."""
    lowest = gate_percent(min(rates.values()))
    shares = {name: gate_percent(rate) for name, rate in groups.items()}
    if len(groups) <= len(rates) and all(share <= lowest for share in shares.values()):
        return [], []
    gated = [(name, share) for name, share in shares.items() if share]
    zero = [name for name, share in shares.items() if not share]
    return sorted(gated, key=lambda pair: -pair[1])[:MOST_GROUPS], zero


def _gates(
    rates: Mapping[str, float],
    groups: Mapping[str, float],
    losses: Mapping[str, str],
    prefix: str,
    made_up: Collection[str],
) -> list[str]:
    """Today's lowest rate of a workload, and today's rate of each of its groups; a fall below them fails the build."""
    lowest = gate_percent(min(rates.values()))
    gated, zero = gated_groups(rates, groups)
    notes = ["# These rates come from made-up values. Run `kvtool init --force` after you replace them."]
    lines = [
        f"[{prefix}gate]  # `kvtool check` fails below today's hit rate, rounded down",
        "# After a fix, raise it: kvtool check --tighten",
        *(notes if any(name in made_up for name in rates) else []),
        *(f"# {one_line(loss)}" for loss in losses.values()),
        gate_of_all(lowest),
        'level = "error"  # a lower rate fails the build; "warn" only reports it',
        f'# findings = {{{KV101.code} = "error", warning = "warn"}}',
    ]
    for name, share in gated:
        lines += ["", *group_gate(name, share, prefix)]
    if gated and zero:
        lines += ["", ungated_groups(zero)]
    if not gated:
        lines += ["", *(f"# {line}" for line in group_gate(next(iter(groups), "support"), Decimal(80), prefix))]
    return lines


_MOST_SOURCES = 16
"""Files to lint that are named one by one; of more, the folder is."""


def _lint(sources: Sequence[str], prefix: str) -> list[str]:
    """Return the table of what `kvtool lint` reads in addition to the workloads; nothing without such files."""
    if not sources:
        return []
    return [
        f"[{prefix}lint]  # what `kvtool lint` reads in addition to the workloads",
        "inputs = [",
        *(f"  {quoted(path)}," for path in (sources if len(sources) <= _MOST_SOURCES else ["."])),
        "]",
        "",
    ]


def quoted(text: str) -> str:
    """Return a text in double quotes, as YAML and TOML both read it."""
    return json.dumps(text, ensure_ascii=False)
