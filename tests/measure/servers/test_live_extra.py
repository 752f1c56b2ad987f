"""Without the extra `live`, a command that needs it says how to get it."""

from __future__ import annotations

import sys

import pytest

from kvtool.errors import EXIT_NOT_AVAILABLE, INSTALL_LIVE, NotAvailableError
from kvtool.measure.engine_extra import need_live


def test_what_is_missing_is_named_with_the_command_that_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(NotAvailableError, match="replay needs httpx") as caught:
        need_live("replay")
    assert (caught.value.hint, caught.value.exit_code) == (INSTALL_LIVE, EXIT_NOT_AVAILABLE)
