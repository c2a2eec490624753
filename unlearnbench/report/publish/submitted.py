"""What a submitted record may hold: types, ranges and the harness's own sentences; no other text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from annotated_types import Ge, Le, Lt
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from unlearnbench.records import digits
from unlearnbench.records.record import Record
from unlearnbench.running.cell import KEY_DIGITS
from unlearnbench.running.options import MAX_REPETITIONS, MAX_THREADS
from unlearnbench.running.outcome import MEMBERS, RESUMED, SERIAL, WATCHED

# Far above what any honest cell has: larger numbers only make whoever computes it again wait.
MAX_EPOCHS = 10**6
MAX_PARAMETER = 10**7
MAX_SECONDS = 10**7
# Audits list members and comparisons.
LONGEST_AUDIT_TEXT = 10_000

_N = r"[0-9]+(\.[0-9]+)?"
# Every note that the harness writes into a record, but for those of a refusal, which are the method's.
NOTES = re.compile(
    "|".join(
        (
            rf"The first (state|predict)\(\) after the request took {_N} s, the second {_N} s: "
            r"the difference is charged to the request\.",
            rf"(state|predict)\(\) took {_N} s, fit\(\) {_N} s: it may train anew what unlearn\(\) left undone\.",
            r"unchanged: forgetting changed no parameter\.",
            r"There are no validation nodes: validation scores are empty\.",
            r"one class: every test node is predicted as class [0-9]+ in view (shard|full)\.",
            r"scored with the graph as it was before the request\.",
            r"diverged: parameters or predictions are not finite; no score is given\.",
            r"Members were trained on a cluster \(--distribute members\): it gives no times\.",
            r"Other cells of the same run were computed beside this one "
            r"\((--jobs|--backend [a-z]+)\): it gives no times\.",
            rf"Load of the machine: watched for {_N} s, too short to tell\.",
            r"Load of the machine: the system does not show the use of its processors\.",
            r"The method changed [A-Za-z' ]{1,60}(: it is|, now) put back\.",
            r"The method left [0-9]+ processes running: [0-9, ]+\.",
            rf"{_N} groups of members were trained by an earlier run that was ended in the middle, "
            r"and taken from there: it gives no times\.",
            r"[a-z_./0-9-]+ was (nan|inf|-inf); stored as null\.",
        )
    )
)
_PATH = re.compile(r"(^|[\s\"'(=,:])(~|\.{1,2})?[/\\][^\s]|[A-Za-z]:[\\/]|://|\\\\")
_MARKUP = re.compile(r"[<>`{}]|\[[^]]*\]\(|&#?\w+;")


def text_problem(text: str, longest: int = 300) -> str:
    """Return why a text must not be published: control characters, markup, a path or an address; empty: nothing."""
    if len(text) > longest:
        return f"is longer than {longest} characters"
    if not text.isprintable():
        return "holds control characters"
    if _MARKUP.search(text):
        return "holds markup"
    return "holds a path or an address" if _PATH.search(text) else ""


def _plain(text: str) -> str:
    if problem := text_problem(text):
        raise ValueError(problem)
    return text


def _matching(pattern: str) -> StringConstraints:
    return StringConstraints(pattern=rf"^(?:{pattern})\z", max_length=100)


Line = Annotated[str, AfterValidator(_plain)]
Name = Annotated[str, _matching(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")]
Alias = Annotated[str, _matching(r"([A-Za-z0-9_][A-Za-z0-9_.+-]*)?")]
Place = Annotated[str, _matching(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_.-]+)*")]
Version = Annotated[str, _matching(r"[0-9]+(\.[0-9]+)*([._+-]?[A-Za-z0-9]+)*")]
MachineId = Annotated[str, _matching(r"m-[0-9a-f]{6}")]
Key = Annotated[str, _matching(rf"[0-9a-f]{{{KEY_DIGITS}}}")]
Digest = Annotated[str, _matching(rf"[0-9a-f]{{{digits.DIGEST}}}")]
Sha256 = Annotated[str, _matching(r"[0-9a-f]{64}")]
Moment = Annotated[str, _matching("before|after|after_[1-9][0-9]{0,4}|clean|fresh")]
Share = Annotated[float, Ge(0), Le(1)]
Seconds = Annotated[float, Ge(0), Le(MAX_SECONDS)]
MiB = Annotated[float, Ge(0), Le(2**30)]
Amount = Annotated[int | float, Ge(0), Le(10**15)]
Cores = Annotated[int, Ge(1), Le(2**16)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class Machine(_Strict):
    """The description of a machine, as `describe_machine` makes it."""

    id: MachineId
    cpu: Line
    cores: Cores
    memory_gib: Annotated[int, Ge(0), Le(2**20)]
    gpus: list[Line]
    os: Name
    architecture: Name
    usable_cores: Cores
    os_release: Line
    python: Version
    blas: Name
    torch_threads: Annotated[int, Ge(1), Le(MAX_THREADS)]


class _Phase(_Strict):
    name: Place
    seconds: Seconds
    start_rss_mib: MiB | None = None
    peak_rss_mib: MiB | None = None
    start_gpu_mib: MiB | None = None
    peak_gpu_mib: MiB | None = None
    peak_gpu_reserved_mib: MiB | None = None
    gpu_process_mib: MiB | None = None
    failed: bool = False


class _Readings(_Strict):
    sources: dict[Name, Name]
    reasons: dict[Annotated[str, _matching(r"[a-z_]+_mib")], Line]


class _Worker(_Strict):
    machine: MachineId


class _Provenance(_Strict):
    python: Version
    packages: dict[Name, Version | None]
    plugins: dict[Name, Version]
    instructions: Annotated[str, _matching(r"[A-Za-z0-9 _.-]+")] = ""
    git: Annotated[str, _matching(r"[0-9a-f]{40}([0-9a-f]{24})?")] | None
    dirty: bool | None
    started: Annotated[str, _matching(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\+00:00")]
    device: Annotated[str, _matching(r"(cpu|cuda|mps)(:[0-9]{1,3})?")] = "cpu"
    threads: Annotated[int, Ge(1), Le(MAX_THREADS)]
    deterministic: bool = False
    isolated: bool = False
    scored_outside: bool = False
    process_seconds: Annotated[float, Ge(0), Le(2**32)] | None = None
    backend: Literal["serial", "resumed", "watched", "processes", "dask", "dask-members"]
    machine: MachineId
    worker: _Worker | None = None
    load: Annotated[list[Annotated[float, Ge(0), Le(2**20)] | None], Field(min_length=2, max_length=2)]
    other_cores: Annotated[float, Ge(0), Le(2**16)] | None
    exclusive: bool
    readings: _Readings
    allocator: Line = ""
    repetitions: list[Annotated[int, Ge(0), Lt(2**31)]] = []


class _Request(_Strict):
    ids_sha256: Sha256
    count: Annotated[int, Ge(1), Le(10**9)]
    counts: dict[Name, Amount] = {}
    sizes: list[Annotated[int, Ge(0)]] | None = None


class _Digests(_Strict):
    before: dict[Place, Digest]
    after: dict[Place, Digest]
    members_changed: list[Annotated[int, Ge(0)]]
    relative_change: Annotated[float, Ge(0)] | None
    unchanged: bool


class _Partition(_Strict):
    sizes: list[Annotated[int, Ge(0)]]
    edges_kept: Share
    label_entropy: Annotated[float, Ge(0)] | None
    graph_entropy: Annotated[float, Ge(0)] | None


class _Claim(_Strict):
    claim: Name
    reason: Line


class _Outcome(_Strict):
    """The fields that all records have; those of runs and audits follow."""

    schema_version: Literal[1] = Field(alias="schema")
    key: Key
    status: Literal["ok", "diverged", "refused"]
    label: Line
    # The leaderboard shows labels alone.
    alias: Alias = ""
    cell: dict[str, Any]
    phases: list[_Phase]
    unlearn_seconds: Seconds | None
    provenance: _Provenance
    error: None
    notes: list[str]
    requests: list[_Request]
    metrics: dict[Name, dict[Literal["shard", "full"], dict[Moment, float | None]]]
    counts: dict[Name, Amount | None]
    claim: _Claim | None
    partition: _Partition | None
    digests: _Digests | dict[str, None]
    predictions_digest: Digest | None = None
    audit: dict[str, Any] | None = None


assert {SERIAL, RESUMED, WATCHED, MEMBERS} <= set(_Provenance.model_fields["backend"].annotation.__args__)  # type: ignore[union-attr]


def content_problem(record: Record) -> str:
    """Return which field has a type, a range or a text that no record of the harness has; empty: none."""
    try:
        _Outcome.model_validate(record.model_dump(mode="json", by_alias=True))
    except ValidationError as error:
        return _first(error)
    free = (note for note in record.notes if not NOTES.fullmatch(note))
    for note in free:
        if record.status != "refused" or text_problem(note):
            why = text_problem(note) or "is none of the harness's sentences"
            return f"a note {why}: {note[:60]!r}."
    for place, text in _texts(record.audit or {}, "audit"):
        if problem := text_problem(text, LONGEST_AUDIT_TEXT):
            return f"{place} {problem}: {text[:60]!r}."
    return too_large(record)


def machine_problem(plain: Any) -> str:
    """Return what is wrong with the types and ranges of a machine's description; empty: nothing."""
    try:
        machine = Machine.model_validate(plain)
    except ValidationError as error:
        return _first(error)
    return "usable_cores are more than cores." if machine.usable_cores > machine.cores else ""


def too_large(record: Record) -> str:
    """Return which number of a cell is so large that computing it again would not end; empty: none."""
    threads = record.provenance.get("threads") or 1
    if type(threads) is not int or not 1 <= threads <= MAX_THREADS:
        return f"provenance.threads is {threads!r}, not 1 to {MAX_THREADS}."
    for place, number in _numbers({key: value for key, value in record.cell.items() if key != "seed"}, "cell"):
        limit = MAX_EPOCHS if place.endswith(("epochs", ".iterations")) else MAX_PARAMETER
        limit = MAX_REPETITIONS if place == "cell.repetition" else limit
        if abs(number) > limit and not place.startswith("cell.protocol.forget.ids") and not place.endswith(".seed"):
            return f"{place} is {number}, more than {limit}."
    return ""


def _first(error: ValidationError) -> str:
    first = error.errors()[0]
    where = ".".join(str(item) for item in first["loc"])
    return f"{where} is {str(first['input'])[:60]!r}: {first['msg']}."


def _texts(value: Any, place: str) -> Iterator[tuple[str, str]]:
    """Yield every text, names of values included, with its place."""
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, dict | list):
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in pairs:
            if isinstance(key, str):
                yield place, key
            yield from _texts(inner, f"{place}.{key}")


def _numbers(value: Any, place: str) -> Iterator[tuple[str, int | float]]:
    if isinstance(value, int | float) and not isinstance(value, bool):
        yield place, value
    elif isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _numbers(inner, f"{place}.{key}")
