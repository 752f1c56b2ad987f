"""What a hostile server may answer: each exchange ends within its limits, with a sentence, and no key is shown."""

from __future__ import annotations

import base64
import gzip
import itertools
import json
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("httpx", reason="needs the extra `live`")
pytest.importorskip("prometheus_client", reason="needs the extra `live`")
pytest.importorskip("zmq", reason="needs the extra `live`")

from kvtool.cli.app import run
from kvtool.measure.servers.http_exchange import ServerConnection, ServerError
from kvtool.measure.servers.key_redaction import REDACTED, redact_keys, redact_keys_in
from kvtool.measure.servers.server_address import server_address
from tests.measure.servers.raw_server import RuleRequest, raw_server, whole

KEY = "sk-Qw8/eR7+tY6uI5oP4aS3dF2gH1"
LIMIT = 1 << 12


def forever(part: bytes, begin: bytes = b"") -> Iterator[bytes]:
    return itertools.chain([begin], itertools.repeat(part))


OKAY = b"HTTP/1.1 200 OK\r\n"
ENDLESS: dict[str, tuple[str, Callable[[], Iterable[bytes]]]] = {
    "headers": ("unreadable answer", lambda: (b"X-%d: a\r\n" % number for number in itertools.count())),
    "interim answers": ("did not answer", lambda: forever(b"HTTP/1.1 103 Early Hints\r\n\r\n")),
    "a body": ("more than", lambda: forever(b" " * 4096, OKAY + b"\r\n")),
    "chunks": ("more than", lambda: forever(b"1\r\n \r\n", OKAY + b"Transfer-Encoding: chunked\r\n\r\n")),
    "redirects": ("more than 3 times", lambda: [b"HTTP/1.1 302 F\r\nContent-Length: 0\r\nLocation: /x\r\n\r\n"]),
}


@pytest.mark.parametrize("kind", ENDLESS)
def test_what_never_ends_ends_at_a_limit(kind: str) -> None:
    said, answer = ENDLESS[kind]
    with (
        raw_server(lambda _: answer()) as url,
        ServerConnection(server_address(url), timeout=1.0 if said == "did not answer" else 20.0) as connection,
        pytest.raises(ServerError, match=said),
    ):
        connection.get("/x", limit=LIMIT)


@pytest.mark.parametrize("begin", [b"", b"HTTP/1.1 ", OKAY, OKAY + b"\r\n", b"HTTP/1.1 102 P\r\n\r\n"])
def test_silence_is_waited_for_no_longer_than_said(begin: bytes) -> None:
    closing = threading.Event()

    def slow(_: RuleRequest) -> Iterator[bytes]:
        yield begin
        closing.wait(60)

    with raw_server(slow) as url, ServerConnection(server_address(url), timeout=0.2) as connection:
        with pytest.raises(ServerError, match=r"did not answer in 0\.2 s"):
            connection.get("/x", limit=LIMIT)
        closing.set()


WRONG = {
    "a long name of a host": b"HTTP/1.1 302 F\r\nLocation: http://xn--" + b"a" * 300 + b"/\r\n\r\n",
    "a port that is none": b"HTTP/1.1 302 F\r\nLocation: http://127.0.0.1:99999999/\r\n\r\n",
    "half an address": b"HTTP/1.1 302 F\r\nLocation: http://[::1\r\n\r\n",
    "a file": b"HTTP/1.1 302 F\r\nLocation: file:///etc/passwd\r\n\r\n",
    "a status that is none": b"HTTP/1.1 9999999999 OK\r\n\r\n",
    "a length that is none": OKAY + b"Content-Length: -5\r\n\r\n",
    "a large header": OKAY + b"X: " + b"a" * (1 << 20) + b"\r\n\r\n",
    "compressed twice": b"".join(
        whole(gzip.compress(gzip.compress(bytes(1 << 20))), b"Content-Encoding: gzip, gzip\r\n")
    ),
    "compressed as nobody knows": b"".join(whole(b"x", b"Content-Encoding: zstd\r\n")),
}


@pytest.mark.parametrize("kind", WRONG)
def test_what_no_server_answers_is_a_sentence(kind: str) -> None:
    with (
        raw_server(lambda _: [WRONG[kind]]) as url,
        ServerConnection(server_address(url), timeout=5.0) as connection,
        pytest.raises(ServerError),
    ):
        connection.get("/x", limit=LIMIT)


@settings(max_examples=20, deadline=None)
@given(st.binary(max_size=60))
def test_no_answer_whatever_raises_another_error(rest: bytes) -> None:
    with (
        raw_server(lambda _: [b"HTTP/1.1 302 F\r\nLocation: http://" + rest]) as url,
        ServerConnection(server_address(url), timeout=2.0) as connection,
        pytest.raises(ServerError),
    ):
        connection.json("/x", limit=LIMIT)


def shown(text: str) -> bool:
    """Whether 8 characters of the key in a row are there, with or without spaces between them."""
    plain = "".join(text.split())
    return any(KEY[at : at + 8] in plain for at in range(len(KEY) - 7))


@given(data=st.data(), before=st.text(max_size=20), after=st.text(max_size=20))
def test_no_piece_of_a_key_is_left(data: st.DataObject, before: str, after: str) -> None:
    form = data.draw(
        st.sampled_from([KEY, f"Bearer {KEY}", quote(KEY, safe=""), repr(f"\x1b{KEY}\n"), json.dumps([KEY])])
    )
    at = data.draw(st.integers(0, len(form)))
    gap = data.draw(st.sampled_from(["", "\r\n ", "\\r\\n ", "\u200b", "\\x1b"]))
    start = data.draw(st.integers(0, 10))
    text = before + form[start:at] + gap + form[at:] + after
    found = redact_keys(text, {"KVTOOL_API_KEY": KEY})
    assert not shown(found)
    assert found.startswith(before[: len(before) - 8])
    assert redact_keys(text, {}) == text
    plain = text.replace(form[start:at] + gap + form[at:], "")
    assert REDACTED not in redact_keys(plain, {"KVTOOL_API_KEY": KEY})


def test_a_key_in_other_digits_is_found() -> None:
    for before in ["", "x", "user:", "Bearer "]:
        secret = {"OPENAI_API_KEY": KEY}
        for written in (base64.b64encode((before + KEY).encode()).decode(), (before + KEY).encode().hex()):
            left = redact_keys(f"<{written}>", secret).replace(REDACTED, "")
            assert len(left) <= len(written) - 32


def test_passwords_of_proxies_are_keys_and_short_words_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert redact_keys("a-long-password", {"HTTPS_PROXY": "http://me:a-long-password@h:1"}) == REDACTED
    assert redact_keys("vllm:prompt_tokens_total EMPTY", {"KVTOOL_API_KEY": "EMPTY"}).endswith("EMPTY")
    monkeypatch.setenv("KVTOOL_API_KEY", KEY)
    assert redact_keys_in({KEY: [1, {"a": KEY}]}) == {REDACTED: [1, {"a": REDACTED}]}


def echo_head(asked: RuleRequest) -> list[bytes]:
    return [OKAY + asked.key + b"\r\n\r\n"]


def echo_status(asked: RuleRequest) -> list[bytes]:
    return [b"HTTP/1.1 " + asked.key + b"\r\n\r\n"]


def echo_folded(asked: RuleRequest) -> list[bytes]:
    return [b"HTTP/1.1 200 OK\r\nX: a\r\n\t" + asked.key[:20] + b"\r\n" + asked.key[20:] + b"\r\n\r\n"]


def echo_redirect(asked: RuleRequest) -> list[bytes]:
    return [b"HTTP/1.1 302 F\r\nLocation: http://" + asked.key[7:] + b":x/\r\n\r\n"]


def echo_line(asked: RuleRequest) -> list[bytes]:
    return whole(b"vllm:a 1\n" + asked.key[:18] + b"\t" + asked.key[18:] + b" {\n")


def echo_names(asked: RuleRequest) -> list[bytes] | None:
    """Answers that are as they should be, with the key wherever a name may stand."""
    key = asked.key.decode()
    pages = {
        "/metrics": f'vllm:prefix_cache_queries_total{{engine="{key[:20]}",model_name="{key}"}} 1\n'
        f'vllm:prefix_cache_hits_total{{engine="{key[:20]}",model_name="{key}"}} 1\n',
        "/version": json.dumps({"version": key}).replace("Q", "\\u0051"),
        "/v1/models": json.dumps({"data": [{"id": f"m{key}", "root": f"a/{key[7:]}", "owned_by": key}]}),
        "/server_info": json.dumps({"vllm_config": {"scheduler_config": {"policy": key, key: key}}}),
        "/kv_event_sources": json.dumps({"0": {"endpoint": f"tcp://{key[7:]}:1"}}),
    }
    return whole(pages[asked.path].encode()) if asked.path in pages else None


def echo_answers(asked: RuleRequest) -> list[bytes] | None:
    """An error in the middle of a stream, where the others fail before one begins."""
    if not asked.path.startswith("/v1/c"):
        return None
    text = json.dumps({"choices": [{"index": 0, "text": asked.key.decode(), "delta": {"content": asked.key.decode()}}]})
    return [OKAY + b"Connection: close\r\n\r\ndata: " + text.encode() + b"\n\ndata: {" + asked.key + b"\n\n"]


ECHOES = (echo_head, echo_status, echo_folded, echo_redirect, echo_line)


@pytest.mark.parametrize("echo", ECHOES[:4])
def test_an_error_has_no_key_in_it(echo: Callable[[RuleRequest], list[bytes]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVTOOL_API_KEY", KEY)
    with (
        raw_server(echo) as url,
        ServerConnection(server_address(url)) as connection,
        pytest.raises(ServerError) as raised,
    ):
        connection.get("/x", limit=LIMIT)
    assert not shown("".join(traceback.format_exception(raised.value)))


def echo_at_once(asked: RuleRequest) -> Iterable[bytes] | None:
    """Another way for each page, as the same command asks for several."""
    return ECHOES[sum(asked.path.encode()) % len(ECHOES)](asked)


def echo_later(asked: RuleRequest) -> Iterable[bytes] | None:
    """Where a page was answered before, and for prompts."""
    if asked.path.startswith("/v1/c") or asked.number:
        return ECHOES[asked.number % len(ECHOES)](asked)
    return None


@pytest.mark.parametrize("echo", [echo_at_once, echo_later, echo_names, echo_answers])
def test_no_command_shows_or_writes_the_key(
    echo: Callable[[RuleRequest], Iterable[bytes] | None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    bytes_json: str,
) -> None:
    monkeypatch.setenv("KVTOOL_API_KEY", KEY)
    log, report, kept = tmp_path / "l.jsonl", tmp_path / "r.json", tmp_path / "kept"
    log.write_text('{"prompt":"a b c"}\n{"prompt":"a b d"}\n')
    assert run(["profile", str(log), "-q", "-t", bytes_json, "-o", f"json={report}"]) == 0
    with raw_server(echo) as url:
        for command in (
            ["watch", url, "--count", "2", "--interval", "0.1s", "--kv-events", "server"],
            ["watch", url, "--count", "1", "--json"],
            ["why", url, str(log), "--kv-events", "server", "-t", bytes_json],
            ["why", url, "--json"],
            ["profile", str(log), "--server", url, "-t", bytes_json, "-o", f"json={tmp_path / 'out.json'}"],
            ["compare", url, str(report), "--window", "0.1s"],
            ["replay", str(log), "--server", url, "-y", "-t", bytes_json, "--record", str(kept), "--reset"],
            ["replay", str(log), "--server", url, "-y", "-t", bytes_json, "--json"],
            ["bench", "--server", url, "-y", "-o", str(tmp_path / "c.json"), "-m", "phi-4"],
        ):
            assert run([*command, "--debug"] if "watch" in command else command) in (0, 1, 2, 4), command
    assert not shown("".join(capsys.readouterr()))
    for path in tmp_path.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            assert not shown((gzip.decompress(data) if path.suffix == ".gz" else data).decode()), path
