"""A ticket for a provider's support, in JSON."""

from __future__ import annotations

import json

from kvtool.report.formats.ticket import ticket_misses
from kvtool.report.write_options import WriteOptions
from kvtool.results.check import CheckResult
from kvtool.text.terminal.runner_commands import blunt_json


def write(result: CheckResult, options: WriteOptions) -> str:
    """Return the misses as a list, without any text of prompts."""
    del options
    rows = [
        {
            "time": each.time,
            "request": each.id,
            "model": each.event.model,
            "gap": each.event.gap,
            "tokens": each.event.tokens,
            "written": each.event.written,
            "cost": each.event.cost,
            "currency": each.currency,
            "prefix": each.event.prefix,
            "certainty": each.event.certainty,
            "detail": each.event.detail,
        }
        for each in ticket_misses(result)
    ]
    return blunt_json(json.dumps({"schema": "kvtool.ticket/1", "misses": rows}, indent=2)) + "\n"
