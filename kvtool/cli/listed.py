"""Commands of `kvtool` and its own options, as its help lists them."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kvtool.cli.command import Command

DEBUG = "--debug"
WIDEST = 100
"""Columns of a help at most."""
SUMMARY = "Prefix-cache profiling and prompt optimization: your hit rate, what it could be, and which text loses it."
EPILOG = (
    "Start with: kvtool demo",
    "In a folder with your own prompts: kvtool init, then kvtool check",
)
SHOW_VERSION = "Show the version."
SHOW_TRACEBACK = "Show the traceback of an error."


@dataclass(frozen=True, slots=True)
class Listed:
    """A command in the help of `kvtool`: its group, its name, what it does, and the place of its class."""

    group: str
    name: str
    short: str
    module: str
    command: str

    def load(self) -> type[Command]:
        """Return the class: its options, and what it does."""
        found: type[Command] = getattr(import_module(self.module), self.command)
        return found


COMMANDS = (
    Listed("Find", "demo", "Profile an example that comes with kvtool.", "kvtool.cli.commands.demo", "DemoCommand"),
    Listed(
        "Find",
        "profile",
        "Profile prompts: hit rate, token breakdown, TTFT, fixes.",
        "kvtool.cli.commands.profile",
        "ProfileCommand",
    ),
    Listed(
        "Find",
        "lint",
        "Find what costs hits in prompts and code, without traffic.",
        "kvtool.cli.commands.lint",
        "LintCommand",
    ),
    Listed(
        "Find",
        "diff-prompts",
        "Find the first difference of prompts, and what it costs.",
        "kvtool.cli.commands.diff",
        "DiffCommand",
    ),
    Listed(
        "Find",
        "logs",
        "Show what logs contain: format, requests, skipped records.",
        "kvtool.cli.commands.logs",
        "LogsCommand",
    ),
    Listed(
        "Find",
        "sessions",
        "List sessions of coding agents by cache misses.",
        "kvtool.cli.commands.sessions",
        "SessionsCommand",
    ),
    Listed(
        "Find", "trace", "Save logs as block traces, without their text.", "kvtool.cli.commands.trace", "TraceCommand"
    ),
    Listed(
        "Fix",
        "optimize",
        "Edit prompts, and verify the gain of each edit.",
        "kvtool.cli.commands.optimize",
        "OptimizeCommand",
    ),
    Listed(
        "Fix",
        "explain",
        "Explain the code of a finding; --list shows all.",
        "kvtool.cli.commands.explain",
        "ExplainCommand",
    ),
    Listed(
        "Gate", "init", "Write kvtool.toml for the prompts of a folder.", "kvtool.cli.commands.init.init", "InitCommand"
    ),
    Listed(
        "Gate",
        "probe",
        "Check that an agent's requests begin with the one before.",
        "kvtool.cli.commands.probe",
        "ProbeCommand",
    ),
    Listed(
        "Gate",
        "check",
        "Check hit rates against limits and a baseline, for CI.",
        "kvtool.cli.commands.check",
        "CheckCommand",
    ),
    Listed("Gate", "compare", "Compare two saved results.", "kvtool.cli.commands.compare", "CompareCommand"),
    Listed(
        "Gate", "report", "Show a saved result again, in any format.", "kvtool.cli.commands.report", "ReportCommand"
    ),
    Listed(
        "Plan",
        "what-if",
        "Compare changes: cache, accelerators, prompts.",
        "kvtool.cli.commands.what_if",
        "WhatIfCommand",
    ),
    Listed(
        "Plan",
        "compare-engines",
        "Compare the cache rules of all engines on one workload.",
        "kvtool.cli.commands.compare_engines",
        "CompareEnginesCommand",
    ),
    Listed(
        "Plan", "size", "Show how many KV blocks a model leaves room for.", "kvtool.cli.commands.size", "SizeCommand"
    ),
    Listed(
        "Plan", "prices", "List the prices of hosted models, by day.", "kvtool.cli.commands.prices", "PricesCommand"
    ),
    Listed("Live", "why", "Say why a running server has its hit rate.", "kvtool.cli.commands.why", "WhyCommand"),
    Listed("Live", "watch", "Watch the prefix cache of a running server.", "kvtool.cli.commands.watch", "WatchCommand"),
    Listed(
        "Live",
        "replay",
        "Compare predicted with real cache hits of a server.",
        "kvtool.cli.commands.replay",
        "ReplayCommand",
    ),
    Listed(
        "Live",
        "bench",
        "Measure this machine, and fit the predictions to it.",
        "kvtool.cli.commands.bench",
        "BenchCommand",
    ),
    Listed(
        "Reference",
        "config",
        "Show every option, its value and its origin.",
        "kvtool.cli.commands.config",
        "ConfigCommand",
    ),
    Listed(
        "Reference",
        "schema",
        "Print JSON Schemas of files that kvtool reads and writes.",
        "kvtool.cli.commands.schema",
        "SchemaCommand",
    ),
    Listed(
        "Reference",
        "doctor",
        "Show what is missing on this machine, and how to get it.",
        "kvtool.cli.commands.doctor.doctor",
        "DoctorCommand",
    ),
)
"""Every command, in the order of the help, the commands of a group together; a class is imported when its command runs."""


def groups() -> dict[str, list[tuple[str, str]]]:
    """Return the names of all commands, of one width, with what they do, by group."""
    found: dict[str, list[tuple[str, str]]] = {}
    widest = max(len(listed.name) for listed in COMMANDS)
    for listed in COMMANDS:
        found.setdefault(listed.group, []).append((listed.name.ljust(widest), listed.short))
    return found


def options_of(name: str) -> frozenset[str]:
    """Return the names of the options that a command takes."""
    from kvtool.config.option import walk

    return frozenset(each.name for listed in COMMANDS if listed.name == name for each in walk(listed.load()))
