"""Controls: methods of known rank, which every measure of forgetting must rank correctly."""

from __future__ import annotations

from unlearnbench import Register, hookimpl


@hookimpl
def register_unlearners(register: Register) -> None:
    """Announce the controls."""
    where = "unlearnbench_controls"
    register(
        "noop",
        f"{where}.untouched:NoOp",
        summary="Control: weights kept, the forgotten edges gone at inference.",
        look=("#9A9A9A", "circle"),
    )
    register(
        "utu",
        f"{where}.untouched:UtU",
        summary="Unlink to Unlearn: for requests of nodes the same as noop.",
        look=("#9A9A9A", "right"),
    )
    register(
        "noop-full",
        f"{where}.untouched:NoOpFull",
        summary="Control: nothing at all happens, at inference neither.",
        look=("#9A9A9A", "square"),
    )
    register(
        "retrain-leak",
        f"{where}.leak:RetrainLeak",
        summary="Control: Retrain that keeps a share of the request.",
        look=("#9A9A9A", "left"),
    )
    register(
        "random-init",
        f"{where}.damaged:RandomInit",
        summary="Control: a network drawn anew and never trained.",
        look=("#9A9A9A", "down"),
    )
    register(
        "over-forget",
        f"{where}.damaged:OverForget",
        summary="Control: gradient ascent on the request's loss.",
        look=("#9A9A9A", "cross"),
    )
