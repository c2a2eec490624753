"""`unlearnbench forget`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unlearnbench.cli import options
from unlearnbench.errors import EXIT_FAILED_CELLS, EXIT_OK, UsageError

if TYPE_CHECKING:
    from unlearnbench.api.certificate import Auditor
    from unlearnbench.protocol.requests import Kind


@click.command("forget", cls=options.Command, short_help="Serve a request to forget on a saved model.")
@click.option("--state", type=options.PATH, metavar="FILE", required=True, help="What `Method.save` wrote.")
@click.option("--data", type=options.PATH, metavar="PATH", required=True, help="The graph it belongs to.")
@click.option(
    "--forget",
    multiple=True,
    required=True,
    callback=options.texts,
    metavar="IDS",
    help="The nodes to forget, 3,17; edges: 3-17,4-5; features: 3:0; @FILE. Repeated, it adds to the one request.",
)
@click.option(
    "--forget-kind",
    type=click.Choice(["node", "edge", "feature"]),
    help="What is forgotten; with feature, 3,17 means all features of these nodes.  [default: as the ids show]",
)
@click.option("--out", type=options.PATH, metavar="FILE", required=True, help="The new state; may be --state itself.")
@click.option(
    "--certificate", type=options.PATH, metavar="FILE", required=True, help="What was done and checked, JSON."
)
@click.option("--audit", metavar="NAMES", default="", help="Audits of the same request, with commas: exactness.")
@options.as_json
@options.debug
def command(
    state: Path,
    data: Path,
    forget: list[str],
    forget_kind: Kind | None,
    out: Path,
    certificate: Path,
    audit: str,
    as_json: bool,
) -> int:
    """Forget nodes, edges or features: read a saved method and its graph, serve the request, write the new state.

    The certificate says what was forgotten, what the method claims, which checks were made, and has digests of
    data and state before and after. Both files are written or none. With --audit the method is trained on the same
    graph again and audited with the same request. A check that fails is in the certificate and ends with 1.

    \b
    Examples:
      unlearnbench forget --state state.pt --data graph.pt --forget 17,23 --out new.pt --certificate cert.json
    """  # noqa: D301
    import torch

    from unlearnbench.api.certificate import check_free, serve
    from unlearnbench.cli.warned import warnings_as_lines
    from unlearnbench.registry.brackets import split_names
    from unlearnbench.registry.loading import load_catalogue
    from unlearnbench.running.forget_list import read_forget

    check_free(out, certificate, state)
    kind: Kind = forget_kind or ("feature" if any(":" in text and text[0] != "@" for text in forget) else "node")
    ids = read_forget(forget, kind)
    if not ids:
        raise UsageError("`forget` names nothing.", "Example: `forget` 17,23.")
    if forget_kind is None and kind == "node" and not isinstance(ids[0], int):
        kind = "edge"
    torch.set_num_threads(1)
    catalogue = load_catalogue()
    specs, auditor = [], None
    if audit:
        from unlearnbench.audits.running import chosen_audits

        specs, auditor = chosen_audits(split_names([audit]), catalogue), _auditor(catalogue)
    with warnings_as_lines():
        served = serve(state, data, ids, kind, specs, auditor)
        values = served.write(out, certificate, lambda values: json.dumps(values, indent=1) + "\n")
    if as_json:
        print(json.dumps(values, indent=1))
    else:
        claim = values["claim"]
        reason = f" ({claim['reason']})" if claim["reason"] else ""
        count, kind = values["forgotten"]["count"], values["forgotten"]["kind"]
        print(f"{values['method']} forgot {count} {kind}{'' if count == 1 else 's'}.")
        print(f"Its claim: {claim['claim']}{reason}.")
        for check in values["checks"]:
            how = {True: "passed", False: "failed", None: "not checked"}[check["passed"]]
            print(f"{how}: {check['check']}: {check['detail']}")
        print(f"{out}\n{certificate}")
    return EXIT_OK if served.passed else EXIT_FAILED_CELLS


def _auditor(catalogue: Any) -> Auditor:
    """Return a function that runs an audit of a cell and returns what a record says of it."""
    import torch

    from unlearnbench.audits.base import Audit
    from unlearnbench.measure.machine import describe_machine
    from unlearnbench.measure.provenance import provenance
    from unlearnbench.running.outcome import RunContext

    compute = Audit.auditor(catalogue)

    def audit(cell: Any, graph: Any) -> dict[str, Any]:
        assert cell.audit is not None
        unfit = cell.audit.build().unfit(cell.method)
        if unfit:
            raise UsageError(f"`audit` {cell.audit.label} is not for {cell.method.label}: {unfit}.", "Leave it out.")
        context = RunContext(torch.device(cell.device), 1, describe_machine()["id"], (), provenance())
        record, _, _ = compute(cell, graph, context)
        if record.audit is None:
            reason = record.error["message"] if record.error else " ".join(record.notes)
            return {"verdict": f"{record.status}: {reason}", "details": {"claim_holds": False}}
        return dict(record.audit)

    return audit
