"""Serving a request to forget on a saved method, with a certificate of what was done and checked."""

from __future__ import annotations

import datetime
import hashlib
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from unlearnbench.api.method import Method, data_digest
from unlearnbench.api.restart import load_method
from unlearnbench.component import Spec
from unlearnbench.errors import UsageError, WriteError
from unlearnbench.graph import Graph, Split
from unlearnbench.measure.digests import changed_names, digests
from unlearnbench.measure.provenance import provenance
from unlearnbench.protocol import Forget
from unlearnbench.protocol.drawing import adjacent
from unlearnbench.protocol.requests import Kind
from unlearnbench.records.files import write_together
from unlearnbench.records.states import State, state_bytes
from unlearnbench.running.cell import Cell

FORMAT = 1
Check = dict[str, Any]
# Audits a cell on a graph, and returns what a record says of it.
Auditor = Callable[[Cell, Graph], dict[str, Any]]


@dataclass(frozen=True, eq=False)
class Served:
    """A request that was served on a saved method, and what was checked of it.

    Args:
        method: The method, after the request.
        former: Its state before.
        latter: Its state after.
        data: Digests of the graph before and after.
        forgotten: The request, as plain values.
        checks: What was checked.
        source: The file that held the former state.
        source_digest: The digest of that file when it was read.
    """

    method: Method
    former: State
    latter: State
    data: tuple[str, str]
    forgotten: Mapping[str, Any]
    checks: Sequence[Check]
    source: Path
    source_digest: str

    def certificate(self, content: bytes) -> dict[str, Any]:
        """Return the certificate as plain JSON values; `content` is that of the new state's file."""
        former, latter = digests(self.former.weights), digests(self.latter.weights)
        return {
            "unlearnbench_certificate": FORMAT,
            "issued": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "method": self.method.spec.label,
            "cell": {"before": self.former.key, "after": self.latter.key},
            "forgotten": dict(self.forgotten),
            "requests_served": len(self.method.requests),
            "claim": {"claim": self.method.claim.value, "reason": self.method.claim_reason},
            "data": dict(zip(("before", "after"), self.data, strict=True)),
            "state": {
                "before": {"sha256": self.source_digest, "digests": former},
                "after": {"sha256": hashlib.sha256(content).hexdigest(), "digests": latter},
                "changed": changed_names(former, latter),
            },
            "checks": list(self.checks),
            "provenance": provenance(),
        }

    def write(self, out: Path, certificate: Path, text: Callable[[dict[str, Any]], str]) -> dict[str, Any]:
        """Write the new state and the certificate, both or neither, and return the certificate.

        Raises:
            WriteError: They cannot be written, or somebody else wrote the state meanwhile.
        """
        content = state_bytes(self.latter)
        values = self.certificate(content)
        if _file_digest(self.source) != self.source_digest:
            raise WriteError(
                f"{self.source} was changed while the request was served: nothing is written.",
                "Run the same command again: the request is then served on the newer state.",
            )
        write_together({out: content, certificate: text(values).encode()})
        return values

    @property
    def passed(self) -> bool:
        """Whether no check failed."""
        return all(check["passed"] is not False for check in self.checks)


def serve(
    state: Path,
    data: Path,
    ids: Iterable[Any],
    kind: Kind,
    audits: Iterable[Spec] = (),
    audit: Auditor | None = None,
) -> Served:
    """Forget nodes, edges or features on a saved method; then check what can be checked.

    Args:
        state: What `Method.save` wrote.
        data: The path of the graph it belongs to.
        ids: The ids, or pairs: the ends of an edge, a node and a column.
        kind: What they name.
        audits: Audits to run of the same request on the same graph.
        audit: Runs one.

    Raises:
        UsageError: As `load_method`, or the request cannot be served; nothing has changed.
    """
    # Before it is read: what is written to it from now on is noticed.
    digest = _file_digest(state) if state.is_file() else ""
    method, listed = load_method(state, data), list(ids)
    former, graph = method.state(), method.graph
    method.forget(**{f"{kind}s": listed})
    latter, request = method.state(), method.requests[-1]
    forgotten = {
        "kind": kind,
        "count": len(request.ids),
        "ids": request.ids.tolist(),
        "sha256": request.sha256(),
    }
    checks = [_is_gone(method), _is_restored(method, latter)]
    for spec in audits:
        assert audit is not None
        checks.append(_audited(spec, audit(*_audited_cell(method, graph, spec, listed, kind))))
    digests_of_data = data_digest(graph), data_digest(method.graph)
    return Served(method, former, latter, digests_of_data, forgotten, checks, state, digest)


def _audited_cell(method: Method, graph: Graph, spec: Spec, listed: Sequence[Any], kind: Kind) -> tuple[Cell, Graph]:
    """Return the cell that audits the same request, and the graph with the nodes that were trained on."""
    train = method.split.train[graph.contains(method.split.train)]
    named: tuple[Any, ...] = tuple(one if isinstance(one, int) else tuple(one) for one in listed)
    held = replace(graph, split=Split(train, method.split.val, method.split.test))
    rules = replace(method.cell.protocol, forget=Forget(None, ids=named, kind=kind), own_split=True)
    return replace(method.cell, protocol=rules, checksum=held.checksum(), audit=spec), held


def check_free(out: Path, certificate: Path, state: Path) -> None:
    """Check that nothing but the former state would be written over.

    Raises:
        UsageError: Another file is there already, or both are one.
    """
    if out.resolve() == certificate.resolve():
        raise UsageError("The state and the certificate have one path.", "Name two files.")
    for path in (out, certificate):
        if path.exists() and (path is certificate or path.resolve() != state.resolve()):
            raise UsageError(f"{path} is there already: nothing is written over.", "Name another file.")


def _is_gone(method: Method) -> Check:
    """Check that nothing of the request is in the graph that is held, or in the partition."""
    request, graph = method.requests[-1], method.graph
    name = f"{request.kind}s"
    if not method.unlearner.deletes_at_inference:
        return _check(name, False, "the method goes on passing messages over what was to be forgotten")
    if request.kind == "edge":
        left = request.ids[adjacent(graph, request.ids)].tolist()
    elif request.kind == "feature":
        kept = (graph.x != 0) & request.feature_mask(graph)
        left = [[int(graph.ids[row]), int(column)] for row, column in kept.nonzero()[:3]]
        return _check(name, not left, f"left: {left}" if left else "all are zero in the graph")
    else:
        partition = method.unlearner.kept().get("partition", torch.empty(0, 2, dtype=torch.int64)).cpu()
        gone = graph.contains(request.ids) | torch.isin(request.ids, partition[:, 0])
        left = request.ids[gone].tolist()
    return _check(name, not left, f"left: {left[:3]}" if left else "none is in the graph or the partition any more")


def _is_restored(method: Method, state: State) -> Check:
    """Check that the new state can be gone on with on the retained graph, where the method knows how to."""
    if not method.unlearner.can_resume():
        return _check("restart", None, "it is trained again after a restart, on the graph as it was at first")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "state.pt")
        path.write_bytes(state_bytes(state))
        load_method(path, method.graph)
    return _check("restart", True, "loaded again with the retained graph alone, it has the same bits")


def _audited(spec: Spec, audit: dict[str, Any]) -> Check:
    holds = audit.get("details", {}).get("claim_holds")
    return {**_check(spec.label, holds, audit.get("verdict", "")), "audit": audit}


def _check(name: str, passed: bool | None, detail: str) -> Check:
    return {"check": name, "passed": passed, "detail": detail}


def _file_digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
