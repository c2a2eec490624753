"""Serving a request to forget on a saved method, with a certificate of what was done and checked."""

from __future__ import annotations

import datetime
import hashlib
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import replace
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
from unlearnbench.records.states import state_bytes
from unlearnbench.running.cell import Cell

FORMAT = 1
Check = dict[str, Any]
# Audits a cell on a graph, and returns what a record says of it.
Auditor = Callable[[Cell, Graph], dict[str, Any]]


class Service:
    """A saved method on its data, to serve one request.

    Args:
        state: What `Method.save` wrote.
        data: The path of the graph it belongs to.

    Raises:
        UsageError: As `load_method`.
    """

    def __init__(self, state: Path, data: Path) -> None:
        self._path, self._method = state, load_method(state, data)
        self._before = _file_digest(state)

    def serve(self, ids: Iterable[Any], kind: Kind, audits: Iterable[Spec] = (), audit: Auditor | None = None) -> None:
        """Forget nodes, edges or features; then check what can be checked.

        Args:
            ids: The ids, or pairs: the ends of an edge, a node and a column.
            kind: What they name.
            audits: Audits to run of the same request on the same graph.
            audit: Runs one.

        Raises:
            UsageError: The request cannot be served; nothing has changed.
        """
        method, listed = self._method, list(ids)
        self._former, graph = method.state(), method.graph
        method.forget(**{f"{kind}s": listed})
        self._latter, request = method.state(), method.requests[-1]
        self._data = data_digest(graph), data_digest(method.graph)
        self._forgotten = {
            "kind": kind,
            "count": len(request.ids),
            "ids": request.ids.tolist(),
            "sha256": request.sha256(),
        }
        self._checks = [_is_gone(method), self._is_restored()]
        train = method.split.train[graph.contains(method.split.train)]
        for spec in audits:
            assert audit is not None
            named: tuple[Any, ...] = tuple(one if isinstance(one, int) else tuple(one) for one in listed)
            amount = Forget(None, ids=named, kind=kind)
            held = replace(graph, split=Split(train, method.split.val, method.split.test))
            cell = replace(
                method.cell,
                protocol=replace(method.cell.protocol, forget=amount, own_split=True),
                checksum=held.checksum(),
                audit=spec,
            )
            self._checks.append(_audited(spec, audit(cell, held)))

    def certificate(self, content: bytes) -> dict[str, Any]:
        """Return the certificate as plain JSON values; `content` is that of the new state's file."""
        former, latter = digests(self._former.weights), digests(self._latter.weights)
        return {
            "unlearnbench_certificate": FORMAT,
            "issued": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "method": self._method.spec.label,
            "cell": {"before": self._former.key, "after": self._latter.key},
            "forgotten": self._forgotten,
            "requests_served": len(self._method.requests),
            "claim": {"claim": self._method.claim.value, "reason": self._method.claim_reason},
            "data": dict(zip(("before", "after"), self._data, strict=True)),
            "state": {
                "before": {"sha256": self._before, "digests": former},
                "after": {"sha256": hashlib.sha256(content).hexdigest(), "digests": latter},
                "changed": changed_names(former, latter),
            },
            "checks": self._checks,
            "provenance": provenance(),
        }

    def write(self, out: Path, certificate: Path, text: Callable[[dict[str, Any]], str]) -> dict[str, Any]:
        """Write the new state and the certificate, both or neither, and return the certificate.

        Raises:
            WriteError: They cannot be written, or somebody else wrote the state meanwhile.
        """
        content = state_bytes(self._latter)
        values = self.certificate(content)
        if _file_digest(self._path) != self._before:
            raise WriteError(
                f"{self._path} was changed while the request was served: nothing is written.",
                "Run the same command again: the request is then served on the newer state.",
            )
        write_together({out: content, certificate: text(values).encode()})
        return values

    @property
    def passed(self) -> bool:
        """Whether no check failed."""
        return all(check["passed"] is not False for check in self._checks)

    def _is_restored(self) -> Check:
        """Check that the new state can be gone on with on the retained graph, where the method knows how to."""
        if not self._method.unlearner.can_resume():
            return _check("restart", None, "it is trained again after a restart, on the graph as it was at first")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "state.pt")
            path.write_bytes(state_bytes(self._latter))
            load_method(path, self._method.graph)
        return _check("restart", True, "loaded again with the retained graph alone, it has the same bits")


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


def _audited(spec: Spec, audit: dict[str, Any]) -> Check:
    holds = audit.get("details", {}).get("claim_holds")
    return {**_check(spec.label, holds, audit.get("verdict", "")), "audit": audit}


def _check(name: str, passed: bool | None, detail: str) -> Check:
    return {"check": name, "passed": passed, "detail": detail}


def _file_digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
