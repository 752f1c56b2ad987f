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
SUMMARY = (
    "Prefix-cache profiling and prompt optimization: what is my hit rate, what could it be, and which text loses it."
)
EPILOG = (
    "Begin with: kvtool demo",
    "In a folder with prompts of your own: kvtool init, then kvtool check",
)
SHOW_VERSION = "Show the version."
SHOW_TRACEBACK = "Show the traceback of an error."


@dataclass(frozen=True, slots=True)
class Listed:
    """A command in the help of `kvtool`: its name, what it is for, and where its class stands."""

    name: str
    short: str
    module: str
    command: str

    def load(self) -> type[Command]:
        """Return the class: its options, and what it does."""
        found: type[Command] = getattr(import_module(self.module), self.command)
        return found


COMMANDS = (
    Listed("demo", "An example that comes with kvtool, profiled.", "kvtool.cli.commands.demo", "DemoCommand"),
    Listed(
        "profile",
        "Hit rates, where the tokens went, TTFT, what to change.",
        "kvtool.cli.commands.profile",
        "ProfileCommand",
    ),
    Listed(
        "what-if", "What to change first: cache, accelerators, prompts.", "kvtool.cli.commands.what_if", "WhatIfCommand"
    ),
    Listed("trace", "Logs as block traces without text, and for replays.", "kvtool.cli.commands.trace", "TraceCommand"),
    Listed(
        "replay",
        "Predicted beside what a server did, request by request.",
        "kvtool.cli.commands.replay",
        "ReplayCommand",
    ),
    Listed("logs", "What is in logs: format, requests, what is left out.", "kvtool.cli.commands.logs", "LogsCommand"),
    Listed(
        "diff-prompts", "Where two or more prompts part, and what it costs.", "kvtool.cli.commands.diff", "DiffCommand"
    ),
    Listed("lint", "Findings only: what costs hits, and where.", "kvtool.cli.commands.lint", "LintCommand"),
    Listed(
        "optimize", "Rewrite prompts, prove it, write where told.", "kvtool.cli.commands.optimize", "OptimizeCommand"
    ),
    Listed(
        "check", "The gate for CI: limits and a baseline, one verdict.", "kvtool.cli.commands.check", "CheckCommand"
    ),
    Listed(
        "compare-engines",
        "One workload under the rules of every engine.",
        "kvtool.cli.commands.compare_engines",
        "CompareEnginesCommand",
    ),
    Listed("compare", "What moved from one result to another.", "kvtool.cli.commands.compare", "CompareCommand"),
    Listed("watch", "What a running server's prefix cache does, live.", "kvtool.cli.commands.watch", "WatchCommand"),
    Listed("report", "A saved result again, in any format.", "kvtool.cli.commands.report", "ReportCommand"),
    Listed(
        "init", "Write a starting configuration for the prompts here.", "kvtool.cli.commands.init.init", "InitCommand"
    ),
    Listed("config", "Every option, and where its value comes from.", "kvtool.cli.commands.config", "ConfigCommand"),
    Listed("schema", "JSON Schemas of what kvtool reads and writes.", "kvtool.cli.commands.schema", "SchemaCommand"),
    Listed("prices", "What tokens of hosted models cost, by day.", "kvtool.cli.commands.prices", "PricesCommand"),
    Listed("explain", "What a code means; --list.", "kvtool.cli.commands.explain", "ExplainCommand"),
    Listed("size", "How many KV blocks a model leaves room for.", "kvtool.cli.commands.size", "SizeCommand"),
    Listed(
        "bench",
        "What this machine does, and a fit of the predictions to it.",
        "kvtool.cli.commands.bench",
        "BenchCommand",
    ),
    Listed(
        "doctor",
        "What is here, what is missing, and how to get it.",
        "kvtool.cli.commands.doctor.doctor",
        "DoctorCommand",
    ),
)
"""Every command, in the order of the help; what a command is made of is imported when it is asked for."""


def options_of(name: str) -> frozenset[str]:
    """Return the names of the options that a command takes."""
    from kvtool.config.option import walk

    return frozenset(each.name for listed in COMMANDS if listed.name == name for each in walk(listed.load()))
