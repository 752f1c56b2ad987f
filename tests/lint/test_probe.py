"""lint --probe: builders run in changed circumstances, what reaches the prompt, and what may go wrong on the way."""

from __future__ import annotations

import io
import json
import os
import shlex
import sys
import time
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest

from kvtool.errors import KvtoolError
from kvtool.lint.probe import probe_runner
from kvtool.lint.probe import probing as probe
from kvtool.lint.probe.probe_runner import Circumstances, ProbeRunner
from kvtool.lint.probe.probing import ProbeOptions, ProbeResult, probe_findings, run_probe
from kvtool.report.terminal.probe import print_probe
from kvtool.text.terminal.console import cell_width, make_console
from kvtool.text.tokens.tokenizer import load_tokenizer
from tests.files import write

PYTHON = shlex.quote(sys.executable)
NOON = 1_763_726_400.25  # 2025-11-21T12:00:00.250Z

BUILDER = """
import datetime, os, pathlib, random, time, uuid

RULES = "A rule that holds for all requests and that every cache should share.\\n" * 8

def tool(name):
    return {"type": "function", "function": {"name": name, "description": "d", "parameters": {"type": "object"}}}

def leaky():
    return "\\n".join([
        "You are an agent.",
        f"Now: {datetime.datetime.now().isoformat(timespec='seconds')}",
        f"Today is {datetime.date.today():%Y-%m-%d}.",
        RULES,
        f"Topics: {', '.join({'alpha', 'beta', 'gamma', 'delta'})}",
        f"Working in {os.getcwd()}",
        f"For {os.environ.get('USER')}",
        "Files: " + ", ".join(path.name for path in pathlib.Path("docs").glob("*.md")),
        f"Request {uuid.uuid4()}",
        RULES,
    ])

def static():
    return RULES + time.strftime("in the %Cth century") + "".join(sorted({"a", "b"}))

async def later():
    print("what is printed does not count")
    return "said later"

def chat():
    names = {"alpha", "beta", "gamma", "delta", "epsilon"}
    return {"tools": [tool(name) for name in names], "messages": [{"role": "system", "content": RULES}]}

def shuffled():
    lines = [f"Document {n}: about the matter number {n} and more.\\n" for n in range(6)]
    random.shuffle(lines)
    return "Read this.\\n" + "".join(lines) + RULES

def homely():
    return RULES + pathlib.Path(os.environ["USER"]).read_text()

def number():
    return 42
"""


@pytest.fixture(scope="module")
def tokenizer():
    return load_tokenizer(None)


@pytest.fixture
def folder(tmp_path, monkeypatch, tokenizer):
    monkeypatch.setattr(probe, "load_tokenizer", lambda *_, **__: tokenizer)
    work = tmp_path / "work"
    (work / "docs").mkdir(parents=True)
    for name in ("b.md", "a.md", "c.md"):
        (work / "docs" / name).write_text(name)
    (work / "build.py").write_text(BUILDER)
    monkeypatch.chdir(work)
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    monkeypatch.setenv("USER", "me")
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return work


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def script(text: str) -> str:
    Path("script.py").write_text(text)
    return f"{PYTHON} script.py"


def output(spec: str, how: Circumstances | None = None, timeout: float = 20.0) -> str:
    with ProbeRunner(spec, timeout=timeout) as runner:
        return runner.run(how or Circumstances(clock=NOON)).data.decode()


@pytest.fixture
def only(monkeypatch):
    """Fewer circumstances, as each takes runs."""
    factors = probe.FACTORS
    return lambda *keys: monkeypatch.setattr(probe, "FACTORS", tuple(each for each in factors if each.key in keys))


def found(result: ProbeResult) -> dict[str, list[tuple[str, int]]]:
    leaks: dict[str, list[tuple[str, int]]] = {}
    for leak in result.leaks:
        leaks.setdefault(leak.factor.key, []).append((leak.kind.code, leak.difference.a.line))
    return leaks


def shown(result: ProbeResult, width: int = 80, encoding: str = "utf-8") -> str:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, newline="")
    print_probe(make_console(file=stream, color="never", width=width), result)
    stream.flush()
    return raw.getvalue().decode(encoding)


# what is found


def test_every_circumstance_that_reaches_the_prompt_is_named(folder):
    before = files(folder.parent)
    names: list[str] = []
    result = run_probe("build:leaky", ProbeOptions(on_run=names.append))
    leaks = found(result)
    assert leaks.pop("clock") == [("KV101", 2), ("KV101", 3)]
    assert leaks.pop("hash_seed") == [("KV113", 13)]
    assert leaks.pop("folder") == [("KV106", 14)]
    assert leaks.pop("user") == [("KV104", 15)]
    assert leaks.pop("listing") == [("KV113", 16)]
    assert leaks.pop("random") == [("KV102", 17)]
    assert not leaks
    assert result.without_effect == ("locale",)
    assert not result.skipped
    assert result.runs == len(names)
    seconds, day = (leak for leak in result.leaks if leak.factor.key == "clock")
    assert (seconds.when, day.when) == ("a second later", "a day later")
    assert "every day starts with a cold cache" in day.fix
    assert files(folder.parent) == before  # nothing is left behind, no compiled module either


def test_costs_are_those_of_the_tokens_behind(folder, only):
    only("clock")
    spec = script(
        "import time\nprint('Be kind.')\nprint('Now', time.strftime('%H:%M:%S'))\nprint('word ' * 400)\nprint('end')\n"
    )
    result = run_probe(spec)
    (leak,) = result.leaks
    token = leak.difference.token
    assert leak.same_tokens == result.tokens - token - 1  # one digit differs, all behind it is the same
    assert leak.lost_blocks == (result.tokens - 1) // 16 - token // 16
    (finding,) = probe_findings(result)
    assert (finding.code, finding.severity, finding.tokens_lost) == ("KV101", "error", leak.same_tokens)
    assert finding.points == leak.same_tokens / result.tokens
    assert finding.path == spec
    data = result.document().model_dump(mode="json")
    assert data["leaks"][0]["line"] == 2
    assert "kind." not in json.dumps(data["leaks"])


def test_nothing_is_said_of_what_is_always_the_same(folder, only):
    only("clock", "hash_seed", "listing", "folder")
    result = run_probe("build.py:static")
    assert result.leaks == ()
    assert len(result.without_effect) == 5
    assert "No change reaches the prompt." in shown(result)


@pytest.mark.parametrize("command", [False, True])
def test_a_chat_body_and_the_order_of_its_tools(command, folder, only):
    only("hash_seed", "time_zone")
    spec = f"{PYTHON} -c 'import build, json; print(json.dumps(build.chat()))'" if command else "build:chat"
    result = run_probe(spec)
    assert result.without_effect == ("unseeded randomness", "time zone")
    leak = result.leaks[0]
    assert (leak.factor.key, leak.kind.code, leak.difference.a.part) == ("hash_seed", "KV111", "tools")
    assert "sorted(...)" in leak.fix
    assert "hash seed: order of tools" in shown(result)


def test_a_coroutine_is_waited_for_and_what_it_prints_does_not_count(folder):
    assert json.loads(output("build:later")) == "said later"


def test_the_flag_of_lint_and_the_command_are_one(in_folder) -> None:
    write("build.py", "import os\nprint('In', os.getcwd(), 'be kind. ' * 40)\n")
    spec = f"{PYTHON} build.py"
    shown = [in_folder(*words) for words in (("probe", spec), ("lint", "--probe", spec))]
    assert shown[0] == shown[1]
    assert shown[0][1].startswith("kvtool probe ")
    assert "working directory" in shown[0][1]
    code, _, err = in_folder("probe", spec, "--fast")
    assert (code, "cannot both be probed" in err) == (2, True)


def test_a_random_order_is_no_random_value(folder, only):
    only("locale")
    result = run_probe("build:shuffled")
    assert {(leak.factor.key, leak.kind.code) for leak in result.leaks} == {("random", "KV113")}
    assert "fixed seed" in result.leaks[0].fix


def test_what_fails_with_a_circumstance_changed_is_not_an_error(folder, only):
    only("user")
    Path("me").write_text("me")
    result = run_probe("build:homely")
    ((name, reason),) = result.skipped
    assert name.startswith("user and host")
    assert "FileNotFoundError" in reason
    assert not result.leaks


def test_a_command_without_python(folder, monkeypatch, only):
    Path("p.sh").write_text('echo "Now: $(date -u +%Y-%m-%dT%H:%M:%SZ)"\necho "in $PWD for $USER"\necho rules rules\n')
    monkeypatch.setattr("kvtool.lint.probe.probe_runner.shutil.which", lambda _: None)
    result = run_probe("sh p.sh")
    leaks = found(result)
    assert leaks["clock"] == [("KV101", 1)]
    assert leaks["folder"] == [("KV106", 2)]
    assert leaks["user"] == [("KV104", 2)]
    assert [name for name, _ in result.skipped] == ["hash seed", "directory order"]
    Path("p.sh").write_text("echo always the same\n")
    only("clock")
    result = run_probe("sh p.sh")
    assert ("clock", "the command runs no Python; install faketime to change its clock") in result.skipped


def test_faketime_where_it_is_installed(folder, monkeypatch, only):
    only("clock")
    tool = folder.parent / "faketime"
    tool.write_text('#!/bin/sh\nshift\nSHIFT="$1"; export SHIFT; shift\nexec "$@"\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder.parent}{os.pathsep}{os.environ['PATH']}")
    Path("p.sh").write_text(
        'echo rules\ncase "$SHIFT" in *34560000s) echo 2027-12-26;; *) echo 2026-11-21;; esac\necho rules\n'
    )
    result = run_probe("sh p.sh")
    assert found(result) == {"clock": [("KV101", 2)]}
    assert result.leaks[0].when == "400 days later"


HOSTILE = (
    "print('\\x1b[31m[/INST] ::error:: \\u202e', __import__('time').time())\nprint('::error::')\nprint('会社' * 90)\n"
)


def test_no_line_is_wider_than_the_console(folder, only):
    only("clock")
    result = run_probe(script(HOSTILE))
    assert result.leaks
    for width in (60, 80, 120):
        for text in (shown(result, width), shown(result, width, "ascii")):
            assert max(map(cell_width, text.splitlines())) <= width
            assert not set(text) & {"\x1b", "\u202e", "\r"}
            assert not any(line.lstrip().startswith("::") for line in text.splitlines())


# what may go wrong


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("sh -c 'echo \"\x1b[31mwrong\" >&2; exit 3'", "failed with exit code 3: \x1b.31mwrong"),
        ("sh -c 'kill -9 $$'", "signal SIGKILL"),
        ("true", "printed nothing"),
        ("no-such-command-at-all x", "no such command"),
        ("build.py", "no such command"),
        ("./docs", "cannot start"),
        ("python 'x", "no closing quotation"),
        ("  ", "needs a command"),
        ("build:nothing", "has no attribute 'nothing'"),
        ("nowhere:f", "No module named 'nowhere'"),
        ("nowhere.py:f", "no such file"),
        ("build:number", "must be an object"),
        ("printf '\\377'", "not UTF-8"),
    ],
)
def test_what_gives_no_prompt(spec, message, folder):
    with pytest.raises(KvtoolError, match=message) as error:
        run_probe(spec)
    assert error.value.exit_code == 2
    assert list(folder.parent.glob("kvtool-probe-*")) == []


def test_what_hangs_is_killed_with_all_that_it_started(folder, monkeypatch):
    """Its time is over as soon as it has started another process, however long that takes on this machine."""
    Path("hang.sh").write_text("sleep 600 & echo $! > part\nmv part pid\necho started\nwait\n")
    hours = count(0, 3600)
    clock = SimpleNamespace(monotonic=lambda: next(hours) if Path("pid").exists() else 0, sleep=time.sleep)
    monkeypatch.setattr(probe_runner, "time", clock)
    with pytest.raises(KvtoolError, match=r"did not end within 0\.5 s") as error:
        output("sh hang.sh", timeout=0.5)
    assert "--probe-timeout" in error.value.hint
    pid = int(Path("pid").read_text())
    for _ in range(1500):
        state = Path(f"/proc/{pid}/stat")
        if not state.exists() or state.read_text().split()[2] == "Z":
            break
        time.sleep(0.02)
    else:
        pytest.fail("the process is still there")


def test_what_is_left_running_does_not_hold_up_the_probe(folder):
    started = time.monotonic()
    assert output("sh -c 'sleep 60 & echo hello'") == "hello\n"
    assert time.monotonic() - started < 30


def test_endless_output_is_stopped(folder, monkeypatch):
    monkeypatch.setattr(probe_runner, "MAX_OUTPUT", 1 << 20)
    with pytest.raises(KvtoolError, match="more than 1 MiB"):
        output("yes")
    assert (
        output("sh -c 'yes >&2 & sleep 0.2; kill $!; echo done'") == "done\n"
    )  # errors are read, and only their end kept


def test_there_is_no_input(folder):
    assert output("sh -c 'cat; echo end'") == "end\n"


@pytest.mark.parametrize("options", [ProbeOptions(timeout=0), ProbeOptions(block_size=0)])
def test_bad_options(options):
    with pytest.raises(KvtoolError):
        run_probe("true", options)


# inside the process


def test_the_clock_stands_and_what_it_makes_is_real(folder):
    spec = script(
        "import time, datetime, pickle, copy, json\n"
        "from datetime import date, datetime as D, timedelta, timezone\n"
        "class Own(D): pass\n"
        "now = D.now()\n"
        "print(json.dumps([time.time(), time.time_ns(), now.isoformat(), str(D.utcnow()), str(date.today()), str(D.today()),"
        " time.strftime('%F %T'), time.ctime(), time.gmtime().tm_hour, time.clock_gettime(time.CLOCK_REALTIME),"
        " D.now(timezone.utc).isoformat(), str(Own.now()),"
        " [isinstance(now, D), isinstance(now, date), isinstance(date.today(), D), issubclass(D, date), type(now).__module__,"
        "  isinstance(Own.now(), D), isinstance(now, Own), type(now + timedelta(1)) is type(now)],"
        " pickle.loads(pickle.dumps([now, date.today()])) == [now, date.today()], copy.deepcopy(now) == now,"
        " str(D.strptime('2020-02-03', '%Y-%m-%d')), str(D(2020, 1, 1) - timedelta(1)), D.fromtimestamp(0, timezone.utc).year]))\n"
        "time.sleep(0.01)\n"
        "print(round(time.time() - " + str(NOON) + ", 3))\n"
        "start = time.time()\n"
        "while time.time() < start + 1: pass\n"
    )
    first, second = output(spec).splitlines()
    day = "2025-11-21"
    assert json.loads(first) == [
        NOON, 1_763_726_400_250_000_000, f"{day}T12:00:00.250000", f"{day} 12:00:00.250000", day, f"{day} 12:00:00.250000",
        f"{day} 12:00:00", "Fri Nov 21 12:00:00 2025", 12, NOON, f"{day}T12:00:00.250000+00:00", f"{day} 12:00:00.250000",
        [True, True, False, True, "datetime", True, False, True], True, True,
        "2020-02-03 00:00:00", "2019-12-31 00:00:00", 1970,
    ]  # fmt: skip
    assert second == "0.01"


def test_randomness_names_and_listings(folder):
    spec = script(
        "import glob, os, pathlib, platform, random, secrets, socket, uuid\n"
        "print(random.random(), uuid.uuid4(), secrets.token_hex(4), random.Random().random(), os.urandom(3).hex())\n"
        "print(socket.gethostname(), platform.node(), os.getlogin() if os.environ['USER'] == 'x' else '')\n"
        "with os.scandir('docs') as entries: print([entry.name for entry in entries])\n"
        "print(os.listdir('docs'), glob.glob('docs/*'), [p.name for p in pathlib.Path('docs').iterdir()], os.listdir(b'docs'))\n"
    )
    how = Circumstances(clock=NOON, random=1, user="x", host="h", variables={"USER": "x"}, listing="reversed")
    first = output(spec, how)
    assert output(spec, how) == first
    assert (
        output(spec, Circumstances(random=2, user="x", host="h", variables={"USER": "x"})).splitlines()[0]
        != first.splitlines()[0]
    )
    lines = first.splitlines()
    assert lines[1:3] == ["h h x", "['c.md', 'b.md', 'a.md']"]
    assert lines[3].startswith(
        "['c.md', 'b.md', 'a.md'] ['docs/c.md', 'docs/b.md', 'docs/a.md'] ['c.md', 'b.md', 'a.md'] [b'c.md'"
    )


def test_another_folder_has_the_same_files(folder):
    spec = script(
        "import os\nhere = os.getcwd()\n"
        "print(os.path.basename(here), open('docs/a.md').read(), os.environ.get('PWD', here) == here)\n"
    )
    assert output(spec, Circumstances(moved=True)) == "other a.md True\n"
    assert output(spec).startswith("work a.md")


def test_a_sitecustomize_of_the_users_still_runs(folder, monkeypatch):
    own = folder.parent / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("import os\nos.environ['OWN'] = 'ran'\n")
    monkeypatch.setenv("PYTHONPATH", str(own))
    assert output(script("import os\nprint(os.environ.get('OWN'))\n")) == "ran\n"
