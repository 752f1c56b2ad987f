"""A program that uses the library, as the type checker of the whole project sees it; nothing runs it.

The call that is wrong is one for the type checker, too: an ignored error that is none is an error.
"""

from __future__ import annotations

import pathlib

import kvtool


def gate(prompts: list[list[dict[str, str]]]) -> float:
    """Profile prompts in memory."""
    report: kvtool.Report = kvtool.profile(prompts, model="llama-3.1-8b", block_size=16, capacity="20GiB", seed=1)
    for finding in report.findings:
        line: int = finding.line
        print(finding.code, finding.path, line, finding.fix)
    return report.totals.hit_rate


def main() -> int:
    """Profile files, check, load and compare."""
    kvtool.profile("w.yaml")
    kvtool.profile(pathlib.Path("w.yaml"), views=True, advice=False).save("out.json")
    kvtool.profile(["a.jsonl", "b.jsonl"], requests=10)
    try:
        result: kvtool.CheckResult = kvtool.check("w.yaml", baseline="base.json", max_drop=0.01)
    except kvtool.KvtoolError as error:
        print(error.message, error.hint, error.place)
        return error.exit_code
    verdict: kvtool.Verdict = result.verdict
    print(kvtool.load("out.json").to_json(), kvtool.diff_prompts("a", "b").reuse.tokens)
    kvtool.profile("w.yaml", block_size="16")  # type: ignore[arg-type]  # the wrong call
    return verdict.exit_code
