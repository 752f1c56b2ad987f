"""AIPerf's raw export: what was sent in `payload`, and when and in which conversation in `metadata`."""

from __future__ import annotations

from kvtool.workload.logs.around_call import Around, body
from kvtool.workload.logs.not_answered import FAILED, has_failed
from kvtool.workload.logs.reading import LeftOut, Reading
from kvtool.workload.logs.record import Record, seconds
from kvtool.workload.logs.told_calls import names_of


def read_raw(record: Record) -> Reading:
    """The request of a payload."""
    if has_failed(record) or record.fields["metadata"].get("was_cancelled"):
        return FAILED
    told = record.fields["metadata"]
    inner = record.inner("payload")
    if inner is None:
        raise record.error("`payload` must be an object", "payload")
    around = Around(
        session=names_of([told["conversation_id"]]),
        time=seconds(told.get("request_start_ns"), "ns", fixed=True),
        end=seconds(told.get("request_end_ns"), "ns", fixed=True),
        identity=names_of([told.get("x_request_id")]),
    )
    return body(inner, around) or LeftOut("other request")
