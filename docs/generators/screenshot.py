"""The picture of a report in the README: what `kvtool profile` itself draws."""

from __future__ import annotations

from docs.generators.shell import Shell

NAME = "report.svg"
_COMMAND = f"kvtool profile workloads/support-bot.yaml --dry-run --show-text snippet --quiet -o {NAME}"


def figures(shell: Shell) -> dict[str, str]:
    """File name and text of the picture."""
    code, said = shell.run(_COMMAND)
    if code:
        raise ValueError(f"{_COMMAND} failed: {said}")
    return {NAME: (shell.folder / NAME).read_text(encoding="utf-8")}
