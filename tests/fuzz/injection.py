"""Hostile texts through every command and every format: python -m tests.fuzz.injection prints what comes out raw.

They stand in prompts, names, ids, keys, values, file names, arguments, templates, sources and saved results. Nothing of them may
reach a terminal, a runner of CI, a browser or a parser as what it is made to be; of prompts, files say nothing unless asked to.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from kvtool.results.schemas import SCHEMAS
from tests.fuzz import corpus
from tests.fuzz.commands import ON, OUTPUTS, TOKENS
from tests.fuzz.forked import Job, Ran, run_jobs
from tests.fuzz.harmless import harm
from tests.fuzz.judge import faults
from tests.fuzz.session import begin, cpu_seconds, saved_results
from tests.tokenizers_made import byte_tokenizer_json

HOSTILE = {
    "terminal": "a\x1b[31mred\x1b]8;;http://evil.example\x07\x1b]52;c;eA==\x07\x9b1m\x85\rPASS\b\b",
    "rich": "[bold red]x[/] [link=http://evil.example]y[/link] [/INST] :smiley:",
    "runner": "::error file=a::boom\n::set-output name=a::b\n  ::stop-commands::t\n##[error]z ##vso[task.setvariable]y",
    "crlf": "x\r\n::warning::w\r::notice::n\u2028::debug::d%0A::add-mask::m",
    "html": "<script>alert(1)</script><img src=x onerror=alert(1)>\"'><svg/onload=alert(1)></title></style></pre><!--",
    "xml": "]]><!ENTITY x SYSTEM 'file:///etc/passwd'>&x; &#0; \x0b\x0c\x1f\ufffe\uffff</testcase>",
    "markdown": "](http://evil.example) ![i](http://evil.example/i.png) | a | `b\n\n# h\n```\n<details open>\n- [x] @someone #1 \\",
    "sheet": '=HYPERLINK("http://evil.example") +1 -1 @SUM(A1) \t|cmd',
    "bidi": "\u202eevil\u2066\u200b\u200d\u2069\ufeff\u061c",
    "nul": "a\x00b\x7f",
    "half": "a\ud800b\udfff",
    "jinja": "{{ 7 * 7 }} {% raw %} {# x #}",
}
SENTINEL = "xyzzyprompt"
"""Stands in prompts: no file may hold it that was not asked for text."""

_FORMATS: tuple[tuple[str, ...], ...] = (
    (),
    ("--color", "always", "--width", "60"),
    ("--plain",),
    ("--json",),
    ("-o", "o.html"),
    ("-o", "o.md"),
    ("-o", "o.xml"),
    ("-o", "o.sarif"),
    ("-o", "o.csv"),
    ("-o", "o.svg"),
    ("-o", "o.txt"),
    ("-o", "gitlab=o.json"),
    ("-o", "github"),
    ("-o", "o.html", "--show-text", "full"),
    ("-o", "o.md", "--show-text", "full"),
    ("--show-text", "full"),
    ("-o", "github", "--show-text", "full"),
)


def _formats(command: str) -> Iterator[tuple[str, ...]]:
    for flags in _FORMATS:
        if command in ("optimize", "diff-prompts", "config", "init") and {"-o", "--show-text"} & set(flags):
            continue
        if command in ("config", "init") and "--plain" not in flags and flags:
            continue
        if command in ("explain", "schema", "size", "") and flags:
            continue
        if command == "compare" and {"o.xml", "o.sarif", "github", "gitlab=o.json", "o.html", "o.csv"} & set(flags):
            continue
        yield flags


def _log(text: str) -> bytes:
    """Records with the text in prompts, ids, names, tools and salts, in front of what would be shared."""
    records = [
        {
            "id": f"{text}{n}",
            "session_id": text,
            "cache_salt": text if n > 2 else None,
            "messages": [
                {
                    "role": "system",
                    "content": f"{n}{text} {SENTINEL} Now 2026-01-05T09:00:0{n}Z. {corpus.SYSTEM}\n{text}",
                },
                {"role": "user", "name": text, "content": f"{text} {n}"},
            ],
            "tools": [
                {"type": "function", "function": {"name": text, "description": f"{text}{n}", "parameters": {text: n}}}
            ],
        }
        for n in range(4)
    ]
    return "".join(json.dumps(record) + "\n" for record in records).encode()


def _workload(text: str, *, names: bool = False, keys: bool = False) -> bytes:
    """A workload with the text in values of variables and prompts, and where it is asked for in names, ids, tenants or keys."""
    name = text if names else "g"
    document: dict[str, Any] = {
        "version": 1,
        "name": name,
        "vars": {"v": {"choice": [f"{text}{n}" for n in range(3)], "pick": "cycle"}, "now": {"datetime": "1m"}},
        "groups": [
            {
                "name": name,
                "requests": 4,
                "tenant": text if names else "t",
                "segments": [
                    {"id": name, "text": f"{{{{ v }}}} {{{{ now }}}} {SENTINEL} "},
                    {"id": "rules", "raw": True, "text": f"{text} {corpus.SYSTEM}"},
                ],
                "gate": {"hit_rate": "99%"},
            }
        ],
    }
    if keys:
        document["engine"] = {"model": text}
        document[text] = 1
    return json.dumps(document).encode()


def _spoiled(document: Any, text: str, kind: str) -> bytes:
    """A document with the text behind every text in it that may be any text."""
    from pydantic import BaseModel, ValidationError

    schema = SCHEMAS[kind]
    model: type[BaseModel] = getattr(import_module(schema.module), schema.model)
    spoiled = _with(document, text)
    for _ in range(20):
        try:
            model.model_validate(spoiled)
        except ValidationError as error:
            for detail in error.errors(include_url=False, include_input=False):
                _restore(spoiled, document, list(detail["loc"]))
        else:
            break
    return json.dumps(spoiled).encode()


def _with(node: Any, text: str) -> Any:
    if isinstance(node, dict):
        return {key: _with(value, text) for key, value in node.items()}
    if isinstance(node, list):
        return [_with(each, text) for each in node]
    return f"{node}{text}" if isinstance(node, str) else node


def _restore(spoiled: Any, document: Any, path: list[int | str]) -> None:
    """Put back what the document has at a place, as near to it as the path of an error leads."""
    for step in path[:-1]:
        try:
            inner = spoiled[step], document[step]
        except (KeyError, IndexError, TypeError):
            continue  # the name of a member of a union, which is no step
        if not isinstance(inner[0], dict | list):
            break
        spoiled, document = inner
    step = path[-1]
    if isinstance(document, list) or step in document:
        spoiled[step] = document[step]
    elif isinstance(document, dict):
        spoiled.update(document)


def _file_name(text: str) -> str:
    return text.replace("\0", "").replace("/", "_")[:80]


def _carriers(text: str, results: dict[str, bytes]) -> Iterator[tuple[str, dict[str, bytes], list[tuple[str, ...]]]]:
    """Where the text stands, the files, and the commands that read them."""
    run = ("--dry-run", "-n", "8", *TOKENS, *ON)
    lint = ("-n", "8", *TOKENS, *ON)
    yield (
        "log",
        {"l.jsonl": _log(text)},
        [
            ("profile", "l.jsonl", *run),
            ("profile", "l.jsonl", *run, "--by", "session", "--per-request", "--boundaries"),
            ("lint", "l.jsonl", *lint),
            ("check", "l.jsonl", *lint, "--min-hit-rate", "0.99"),
            ("diff-prompts", "l.jsonl:1", "l.jsonl:2", *TOKENS, "--offline", "--tokens"),
            ("optimize", "l.jsonl", *lint),
        ],
    )
    for where in ("", "names", "keys"):
        yield (
            f"workload {where}",
            {"w.yaml": _workload(text, names=where == "names", keys=where == "keys")},
            [
                ("profile", "w.yaml", *run, "--by", "tenant"),
                ("lint", "w.yaml", *lint),
                ("check", "w.yaml", *lint),
                ("optimize", "w.yaml", *lint, "--unsafe-fixes"),
                ("config", "w.yaml"),
            ],
        )
    name = _file_name(text)
    half_log = corpus.LOGS["openai"]
    yield (
        "file names",
        {
            f"{name}.jsonl": half_log,
            f"{name}.yaml": corpus.WORKLOADS[0].encode(),
            f"{name}.j2": corpus.FIXABLE.encode(),
            f"{name}.py": corpus.PYTHON[0].encode(),
            f"{name}.txt": b"one\ntwo",
            f"x{name}.txt": b"one\nthree",
        },
        [
            ("profile", f"{name}.jsonl", *run),
            ("profile", f"{name}.yaml", *run),
            ("lint", f"{name}.j2", f"{name}.py", *lint),
            ("check", f"{name}.j2", f"{name}.yaml", *lint),
            ("diff-prompts", f"{name}.txt", f"x{name}.txt", *TOKENS, "--offline"),
            ("lint", f"{name}.j2", *lint, "--diff"),
            ("init", ".", "--dry-run", *TOKENS, *ON),
            ("profile", f"none{name}.jsonl", *run),
            ("report", f"{name}.txt"),
        ],
    )
    data = text.encode("utf-8", "surrogatepass")
    broken = {
        "w.yaml": b"version: 1\n" + data + b": [" + data,
        "kvtool.toml": b"[engine]\n" + data + b" = '" + data + b"'\n",
        "l.jsonl": b'{"prompt": "' + data + b'", ' + data + b"}\n",
        "t.jinja": data + b"{% if " + data + b" %}",
        "r.json": b'{"schema": "' + data + b'"}',
        "p.py": b"x = f'" + data + b"{'\n",
        "a.txt": b"one " + data,
        "b.txt": b"two " + data,
    }
    yield (
        "broken files",
        broken,
        [
            ("profile", "w.yaml", *run, "--no-config"),
            ("check", "a.txt", *lint),
            ("profile", "l.jsonl", *run, "--no-config"),
            ("lint", "t.jinja", "p.py", *lint, "--no-config"),
            ("report", "r.json"),
            ("diff-prompts", "a.txt", "b.txt", *TOKENS, "--offline", "--no-config"),
            ("profile", "a.txt", *run, "--no-config", "--chat-template", "t.jinja"),
            ("profile", "a.txt", "--dry-run", "-t", "r.json", "--no-config"),
            ("check", "a.txt", *lint, "--no-config", "--baseline", "r.json"),
            ("profile", "a.txt", *run, "--no-config", "--calibration", "r.json"),
        ],
    )
    argument = text.replace("\0", "")
    yield (
        "arguments",
        {"a.txt": b"one"},
        [
            ("profile", argument),
            ("profile", "a.txt", *run, "--model", argument),
            ("profile", "a.txt", *run, "-g", argument),
            (argument,),
            ("profile", "a.txt", *run, "--format", argument),
            ("profile", "a.txt", *run, "--capacity", argument),
            ("lint", "a.txt", "--select", argument),
            ("explain", argument),
            ("schema", argument),
            ("size", argument),
            ("profile", "a.txt", f"--{argument}"),
            ("profile", "a.txt", *run, "-o", argument),
        ],
    )
    for kind in ("report", "check", "lint"):
        spoiled = _spoiled(json.loads(results[kind]), text, kind)
        yield (
            f"saved {kind}",
            {"r.json": spoiled, "s.json": results[kind]},
            [
                ("report", "r.json"),
                ("compare", "r.json", "s.json"),
                ("compare", "s.json", "r.json"),
            ],
        )


def injected(results: dict[str, bytes], common: dict[str, bytes], most: int | None = None) -> list[Job]:
    """Every text in every place through every command and format; with `most`, about so many, spread over all of them."""
    jobs: list[Job] = []
    for kind, text in HOSTILE.items():
        for where, files, lines in _carriers(text, results):
            for line in lines:
                for flags in _formats(line[0]):
                    arguments = tuple(map(_encodable, (*line, *flags)))
                    named = {_encodable(name): data for name, data in files.items()}
                    jobs.append(Job(f"{kind} in {where}", len(jobs), arguments, {**common, **named}, (), OUTPUTS))
    if most is None or most >= len(jobs):
        return jobs
    stride = len(jobs) / most
    return [jobs[int(at * stride)] for at in range(most)]


def _encodable(text: str) -> str:
    """As an operating system hands it over: bytes that are no UTF-8 are halves of pairs."""
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "surrogateescape")


def wrong(ran: Ran) -> list[str]:
    """What every command line owes, and what is raw in what it wrote."""
    reasons = list(faults(ran))
    if ran.code == 3 or ran.signal is not None:
        return reasons
    shown = "full" in ran.job.arguments
    for name, data in {"stdout": ran.out.encode(), **ran.written}.items():
        reasons += [f"{name}: {said}" for said in harm(name, data.decode("utf-8", "replace"), ran.job.arguments)]
        if name != "stdout" and name.startswith("o.") and not shown and SENTINEL.encode() in data:
            reasons.append(f"{name} quotes a prompt")
    return reasons


def main() -> int:
    """Run all, or as many as the first argument says; the exit code is 1 where something is wrong."""
    most = int(sys.argv[1]) if len(sys.argv) > 1 else None
    tokenizer = byte_tokenizer_json()
    _, common = begin(tokenizer)
    jobs = injected(saved_results(tokenizer), common, most)
    bad = 0
    codes: dict[int | None, int] = {}
    for ran in run_jobs(jobs):
        codes[ran.code] = codes.get(ran.code, 0) + 1
        if reasons := wrong(ran):
            bad += 1
            print(
                f"{ran.job.kind}: {ascii(' '.join(ran.job.arguments))[:200]}\n    {ascii('; '.join(reasons))[:400]}",
                flush=True,
            )
    print(f"{len(jobs)} command lines, {bad} wrong, exit codes {codes}, {cpu_seconds():.0f} s of CPU")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
