"""The record of a cell: one strict JSON object, checked when it is made and when it is read."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from unlearnbench.component import canonical_json
from unlearnbench.errors import UnlearnbenchError
from unlearnbench.records.columns import rows_or_columns, written_columns
from unlearnbench.records.digits import (
    NOTHING,
    ON_CPU,
    kept_of_audit,
    kept_of_digest,
    kept_of_digests,
    kept_of_metrics,
    kept_of_phase,
    kept_of_provenance,
    kept_of_request,
    kept_of_seconds,
    written_audit,
    written_digests,
    written_provenance,
)
from unlearnbench.records.plain import ESCAPED, is_plain, made_plain
from unlearnbench.records.shapes import (
    Audit,
    Cell,
    Claim,
    Count,
    Digests,
    Failure,
    Number,
    Partition,
    Phase,
    Provenance,
    Request,
)

SCHEMA = 1
FAILURES = ("error", "oom", "killed", "timeout")
KEY = re.compile(r"[0-9a-f]{8,64}")

Status = Literal["ok", "diverged", "refused", "error", "oom", "killed", "timeout"]

Metrics = dict[str, dict[str, dict[str, Number | None]]]


class DamagedRecordError(UnlearnbenchError):
    """A record cannot be read: it is cut short, is not a record, or lacks something."""


class MisplacedRecordError(DamagedRecordError):
    """A record lies elsewhere than its content says: in a copied or renamed folder, or under another name."""


class SchemaVersionError(UnlearnbenchError):
    """A record was written by an older or a newer unlearnbench."""


class Record(BaseModel):
    """The stored outcome of a cell, or its failure.

    Numbers that are not finite become null on entry, and characters that no file or figure takes become escapes,
    each with a line in `notes`, so that a record is always strict JSON and writing one never ends a run.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    schema_version: int = Field(default=SCHEMA, alias="schema", description="Layout of the file.")
    key: str = Field(description="Hash of the canonical cell, in hexadecimal.")
    status: Status = Field(description="ok, diverged, refused; or a failure: error, oom, killed, timeout.")
    label: str = Field(description="The method as tables show it: graphrevoker[sem_weight=0].")
    alias: str = Field(
        default="", description="What the user called the method; absent if nothing. No part of what the cell is."
    )
    cell: Cell = Field(description="Protocol, dataset, model, method, training, repetition, seed, device.")
    requests: list[Annotated[Request, AfterValidator(kept_of_request)]] = Field(
        default_factory=list,
        description="Each request: digest, count; of a stream also its counts, and the sizes of shards after it.",
    )
    metrics: Annotated[Metrics, AfterValidator(kept_of_metrics)] = Field(
        default_factory=dict,
        description="Metric, view, moment (before, after; in a stream after_1; with poison clean, fresh), ten digits.",
    )
    phases: Annotated[
        list[Annotated[Phase, AfterValidator(kept_of_phase)]], rows_or_columns(Phase, always="seconds")
    ] = Field(
        default_factory=list,
        description="Seconds, six decimals; MiB, three, at the start only where below the peak. As columns.",
    )
    unlearn_seconds: Annotated[Number, AfterValidator(kept_of_seconds)] | None = Field(
        default=None, description="From the request to the first answers; of a stream, of all of its requests."
    )
    counts: dict[str, Count | Number | None] = Field(
        default_factory=dict, description="shards_hit, node_epochs, steps of the request; fit_... of what came before."
    )
    claim: Claim | None = Field(default=None, description="What the method says of its forgetting, and why.")
    partition: Annotated[Partition, AfterValidator(kept_of_metrics)] | None = Field(
        default=None, description="Statistics of the partition, if there is one."
    )
    digests: Annotated[Digests, AfterValidator(kept_of_digests)] = Field(
        default_factory=dict,
        description="Digests of the deployed parameters, 48 bits each: before, members in order of their numbers; and "
        "what changed, null where it is gone. `members_changed` and `unchanged` follow from it where they are absent.",
    )
    predictions_digest: Annotated[str, AfterValidator(kept_of_digest)] | None = Field(
        default=None, description="48 bits of the SHA-256 of the stored predictions; absent where there are none."
    )
    audit: Annotated[Audit, AfterValidator(kept_of_audit)] | None = Field(
        default=None,
        description="What an audit found, to five digits: verdict, scores, details, notes; only in its record.",
    )
    provenance: Annotated[Provenance, AfterValidator(kept_of_provenance)] = Field(
        description="Packages, git, start, threads, backend, load, machine; plugins, where not all are unlearnbench's."
    )
    error: Failure | None = Field(default=None, description="Set exactly when the status is a failure.")
    notes: list[str] = Field(default_factory=list, description="What a reader of the record should know.")

    @model_validator(mode="before")
    @classmethod
    def _make_plain(cls, values: Any, info: ValidationInfo) -> Any:
        if not isinstance(values, dict):
            return values
        if info.context is UNSHARED and is_plain(values):
            return values
        notes: list[str] = []
        clean = {name: made_plain(value, name, notes) for name, value in values.items()}
        if notes:
            clean["notes"] = [*(clean.get("notes") or []), *notes]
        return clean

    @field_validator("key")
    @classmethod
    def _check_key(cls, key: str) -> str:
        if not KEY.fullmatch(key):
            raise ValueError("a key is 8 to 64 hexadecimal digits")
        return key

    @model_validator(mode="after")
    def _check_complete(self) -> Record:
        if (self.error is not None) != (self.status in FAILURES):
            raise ValueError(f"status {self.status} {'with' if self.error else 'without'} an error")
        if self.is_audit and not self.is_failure and self.audit is None:
            raise ValueError("the record of an audit without what it found")
        return self

    @property
    def machine(self) -> str:
        """The id of the machine the cell ran on."""
        return str(self.provenance["machine"])

    @property
    def gpu_reason(self) -> str:
        """Why the record has no memory of a GPU; empty where it has."""
        if self.cell.get("device") == "cpu":
            return ON_CPU
        reasons = (self.provenance.get("readings") or {}).get("reasons") or {}
        return str(reasons.get("peak_gpu_mib") or "")

    @property
    def shown_name(self) -> str:
        """What the user reads: the alias, or else the label."""
        return self.alias or self.label

    @property
    def is_audit(self) -> bool:
        """Whether this is the record of an audit, finished or failed."""
        return "audit" in self.cell

    @property
    def is_failure(self) -> bool:
        """Whether the cell has no outcome."""
        return self.status in FAILURES

    @property
    def file_name(self) -> str:
        """The name of the record's file."""
        return f"{self.key}.error.json" if self.is_failure else f"{self.key}.json"

    def to_json(self) -> str:
        """Return strict JSON, a line for each part, equal text for equal records, with a checksum of all the rest."""
        plain = self.model_dump(mode="json", by_alias=True)
        plain["digests"] = written_digests(plain["digests"])
        plain["phases"] = written_columns(plain["phases"])
        plain["provenance"] = written_provenance(plain["provenance"])
        if plain["audit"]:
            plain["audit"] = written_audit(plain["audit"])
        # Empty parts take their defaults again when they are read.
        needed = {name for name, field in Record.model_fields.items() if field.is_required()}
        plain = {name: value for name, value in plain.items() if name in needed or value not in NOTHING}
        plain["checksum"] = _checksum(plain)
        return _lines(plain)


def _lines(plain: Mapping[str, Any]) -> str:
    """Write a line for each key: a seventh shorter than one for each value, and a difference still shows its part."""
    parts = (
        f'"{name}": {json.dumps(value, allow_nan=False, sort_keys=True, separators=(",", ":"))}'
        for name, value in sorted(plain.items())
    )
    return "{" + ",\n ".join(parts) + "}\n"


UNSHARED = "nobody else holds the values"
"""Context of a validation that need not copy them."""


def read_record(path: Path) -> Record:
    """Read one record.

    Raises:
        DamagedRecordError: The file is cut short, is not strict JSON, lacks keys, was changed after it
            was written, or has another record's name (`MisplacedRecordError`).
        SchemaVersionError: An older or a newer unlearnbench wrote it.
    """
    remedy = "Delete the file and run the same command again: the cell is computed anew."
    try:
        plain = json.loads(path.read_bytes().decode("utf-8"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise DamagedRecordError(f"{path}: not a whole record ({error}).", remedy) from None
    except OSError as error:
        raise DamagedRecordError(
            f"{path}: cannot be read ({error.strerror}).", "Check the file's permissions."
        ) from None
    if not isinstance(plain, dict) or type(plain.get("schema")) is not int:
        raise DamagedRecordError(f"{path}: not a record (no schema version).", remedy)
    if plain["schema"] > SCHEMA:
        raise SchemaVersionError(
            f"{path}: schema {plain['schema']} is newer than this unlearnbench understands ({SCHEMA}).",
            "Update unlearnbench, or use another `out`.",
        )
    if plain["schema"] < SCHEMA:
        raise SchemaVersionError(
            f"{path}: schema {plain['schema']} is older than this unlearnbench reads ({SCHEMA}).",
            "Run the cells again into another `out`, or read the file with the version that wrote it.",
        )
    # Records from before there were checksums have none.
    has_checksum, checksum = "checksum" in plain, plain.pop("checksum", None)
    try:
        record = Record.model_validate(plain, context=UNSHARED)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(item) for item in first["loc"]) or "the record"
        raise DamagedRecordError(f"{path}: {where}: {first['msg']}.", remedy) from None
    if escaped := [note for note in record.notes[len(plain.get("notes", ())) :] if note.endswith(ESCAPED)]:
        raise DamagedRecordError(f"{path}: {escaped[0]}", remedy)
    if path.name != record.file_name:
        raise MisplacedRecordError(
            f"{path}: left out: it holds the record {record.file_name}.", "Give the file its own name back."
        )
    if has_checksum and checksum != _checksum(plain):
        raise DamagedRecordError(f"{path}: changed after it was written: its checksum is another.", remedy)
    if not hashlib.sha256(canonical_json(record.cell).encode()).hexdigest().startswith(record.key):
        raise DamagedRecordError(f"{path}: its key is that of another cell.", remedy)
    return record


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a record's file, for programs that read it without this package.

    `read_record` also checks the checksum, the key, the name of the file, and that dataset, model,
    method, protocol and machine are named.
    """
    schema = Record.model_json_schema(by_alias=True)
    schema["properties"]["schema"] |= {"const": SCHEMA}
    schema["properties"]["checksum"] = {
        "description": "SHA-256 of all the rest, keys sorted, without spaces; absent in old records.",
        "pattern": "^[0-9a-f]{64}$",
        "type": "string",
    }
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _checksum(plain: Mapping[str, Any]) -> str:
    """Hash the content of a record, independent of its layout."""
    return hashlib.sha256(json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _refuse_constant(token: str) -> float:
    raise ValueError(f"{token} is not strict JSON")
