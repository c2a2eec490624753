"""Controls: methods of known rank, which every measure of forgetting must rank correctly."""

from __future__ import annotations

from unlearnbench import Register, hookimpl


@hookimpl
def register_unlearners(register: Register) -> None:
    """Announce the controls."""
    where = "unlearnbench_controls"
    register("noop", f"{where}.untouched:NoOp", summary="Control: weights kept, the forgotten edges gone at inference.")
    register("utu", f"{where}.untouched:UtU", summary="Unlink to Unlearn: for requests of nodes the same as noop.")
    register(
        "noop-full", f"{where}.untouched:NoOpFull", summary="Control: nothing at all happens, at inference neither."
    )
    register("retrain-leak", f"{where}.leak:RetrainLeak", summary="Control: Retrain that keeps a share of the request.")
    register("random-init", f"{where}.damaged:RandomInit", summary="Control: a network drawn anew and never trained.")
    register("over-forget", f"{where}.damaged:OverForget", summary="Control: gradient ascent on the request's loss.")
