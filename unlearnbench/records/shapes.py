"""Types of the parts of a record that tables read: a part may be absent, more may be there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal, NotRequired, Required

from pydantic import ConfigDict, GetPydanticSchema, Strict, with_config
from typing_extensions import TypedDict

from unlearnbench.records.columns import rows_or_columns

# Strict: text that looks like a number is not one. More keys may come with a newer version or a plugin.
_part: Callable[[type], type] = with_config(ConfigDict(extra="allow", strict=True))
Plain = dict[str, Any]
Number = Annotated[float, Strict()]
Count = Annotated[int, Strict()]


def _dictionary(shape: Any) -> Any:
    """Annotate a dictionary whose known keys have the types of a `TypedDict`."""
    return GetPydanticSchema(lambda _, handler: handler.generate_schema(shape))


@_part
class Phase(TypedDict, total=False):
    """What one phase of a cell took; an absent reading has its reason in `provenance.readings`."""

    name: Required[str]
    seconds: float | None
    peak_rss_mib: float | None
    peak_gpu_mib: float | None
    peak_gpu_reserved_mib: float | None


@_part
class Failure(TypedDict):
    """Why a cell failed."""

    type: str
    message: str
    traceback: str


@_part
class _Component(TypedDict, total=False):
    name: Required[str]
    params: Plain
    sha256: str


@_part
class _Forget(TypedDict, total=False):
    kind: str
    ratio: float
    ids: list[Any]


@_part
class _Protocol(TypedDict, total=False):
    name: Required[str]
    forget: _Forget
    split: Literal["own"] | list[float]
    setting: Literal["transductive"]


@_part
class _Cell(TypedDict):
    protocol: _Protocol
    dataset: _Component
    model: _Component
    method: _Component
    training: NotRequired[Plain]
    repetition: int
    seed: int
    audit: NotRequired[_Component]


@_part
class _Request(TypedDict, total=False):
    ids_sha256: str
    count: int
    counts: dict[str, int]
    sizes: list[int] | None


@_part
class _Claim(TypedDict, total=False):
    claim: Required[str]
    reason: str


@_part
class _Partition(TypedDict, total=False):
    sizes: list[int]
    edges_kept: float | None
    label_entropy: float | None
    graph_entropy: float | None


@_part
class _Digests(TypedDict, total=False):
    before: dict[str, str | list[str]]
    after: dict[str, str]
    changed: dict[str, str | None]
    members_changed: list[int]
    relative_change: float | None
    unchanged: bool


@_part
class _Score(TypedDict, total=False):
    measure: str
    where: str
    note: str
    state: str
    value: float | None
    low: float | None
    high: float | None
    floor: float | None
    effect: float | None
    p: float | None
    runs: int | None
    controls: dict[str, float | None]


@_part
class _Audit(TypedDict, total=False):
    verdict: Required[str]
    scores: Annotated[list[_Score], rows_or_columns(_Score, always="value")]
    details: Plain
    measured: Plain
    notes: list[str]


@_part
class _Readings(TypedDict, total=False):
    sources: dict[str, str | None] | None
    reasons: dict[str, str | None] | None


@_part
class _Provenance(TypedDict, total=False):
    machine: Required[str]
    packages: dict[str, str | None] | None
    plugins: dict[str, str | None] | None
    readings: _Readings | None
    git: str | None
    dirty: bool | None
    started: str | None
    threads: int | None
    backend: str | None
    exclusive: bool | None
    deterministic: bool | None


Cell = Annotated[Plain, _dictionary(_Cell)]
Request = Annotated[Plain, _dictionary(_Request)]
Claim = Annotated[dict[str, str], _dictionary(_Claim)]
Partition = Annotated[Plain, _dictionary(_Partition)]
Digests = Annotated[Plain, _dictionary(_Digests)]
Audit = Annotated[Plain, _dictionary(_Audit)]
Provenance = Annotated[Plain, _dictionary(_Provenance)]
