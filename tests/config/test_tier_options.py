"""Amounts of tiers and links as people write them."""

from __future__ import annotations

from math import inf

import pytest

from kvtool.config.options.tier_options import amounts, single_amount
from kvtool.errors import KvtoolError
from kvtool.text.quantities import parse_bandwidth


def test_bandwidths() -> None:
    for text, bytes_per_second in [
        ("14GB/s", 14e9),
        ("400 Gbit/s", 50e9),
        ("1GiB/s", 2.0**30),
        ("0B/s", 0.0),
        ("7.5gB/s", 7.5e9),
        ("Unlimited", inf),
    ]:
        assert parse_bandwidth(text) == bytes_per_second


def test_what_is_no_bandwidth() -> None:
    for text in ["", "14", "14GB", "-1GB/s", "fast", "1e3GB/s", "14GB/min", "14gb/s", "400Gbps", "9" * 60 + "GB/s"]:
        with pytest.raises(ValueError, match=r"bandwidth|too long"):
            parse_bandwidth(text)


def test_lists_and_single_ones() -> None:
    assert amounts("--host-bandwidth", " 1GB/s, 2GB/s ,", parse_bandwidth) == [1e9, 2e9]
    assert amounts("--host-bandwidth", None, parse_bandwidth) == []
    assert single_amount("--disk-bandwidth", None, parse_bandwidth, 3.0) == 3.0
    assert single_amount("--disk-bandwidth", "4GB/s", parse_bandwidth, 3.0) == 4e9
    with pytest.raises(KvtoolError, match="--disk-bandwidth is one amount, not 2"):
        single_amount("--disk-bandwidth", "1GB/s,2GB/s", parse_bandwidth, 3.0)
    with pytest.raises(KvtoolError, match="--host-bandwidth: `x`"):
        amounts("--host-bandwidth", "1GB/s,x", parse_bandwidth)
