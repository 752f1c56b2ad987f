"""Whatever a file holds, reading it ends in turns or in an error for the user, never in a traceback."""

from __future__ import annotations

import json
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.errors import KvtoolError
from kvtool.workload.logs.logs import LogOptions, LogSource
from kvtool.workload.turn import Output

_KEYS = """messages prompt text input inputs conversations from value traj history role content type text tool_calls tools function
functions system instructions question turns token_ids output_ids hash_ids input_length output_length timestamp chat_id requests
block_size in out t chunk_hashes chunk_size seq_len session_id id body request response choices message usage output name arguments
tool_result tool_use function_call""".split()  # noqa: SIM905 # one word per string would be forty lines
_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 5),
    st.sampled_from([1 << 31, 1 << 64, -1, 10**400, 1.5, float("nan"), float("inf"), 64.0]),
    st.sampled_from(["user", "assistant", "human", "gpt", "x", "", "0x1f", "2026-01-01", "\ud800", *_KEYS[-3:]]),
)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.sampled_from(_KEYS), inner, max_size=6)),
    max_leaves=20,
)


def _read(data: bytes, **options: Any) -> int:
    """How many turns the data gives; only KvtoolError may come instead."""
    count = 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log"
        path.write_bytes(data)
        with suppress(KvtoolError):
            for conversation in LogSource([str(path)], LogOptions(**options)).conversations():
                turn = conversation.next_turn(None)
                while turn is not None:
                    count += 1
                    filled = (turn.messages, turn.text, turn.token_ids, turn.hashed)
                    assert sum(each is not None for each in filled) == 1
                    turn = conversation.next_turn(Output("ok"))
    return count


@given(record=st.dictionaries(st.sampled_from(_KEYS), _VALUES, max_size=8) | _VALUES, indent=st.sampled_from([None, 1]))
def test_any_record(record: object, indent: int | None) -> None:
    text = json.dumps(record, indent=indent)
    _read(text.encode())
    if indent is None and not isinstance(record, list):
        assert _read(f'{text}\n{{"prompt": "x"}}'.encode(), on_bad_line="skip") >= 1, "the good line after it is read"


@given(data=st.binary(max_size=60) | st.text(alphabet='{}[]",:\\ \n1a\x00é', max_size=60).map(str.encode))
def test_any_bytes(data: bytes) -> None:
    _read(data)
    _read(data, on_bad_line="skip")


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/random"])
def test_a_device_that_has_no_end_is_no_log(device: str) -> None:
    with pytest.raises(KvtoolError, match="a device, not a log"):
        next(LogSource([device]).conversations())
