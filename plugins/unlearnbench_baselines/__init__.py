"""Baselines that are not specific to graphs: fine-tuning, NegGrad+, bad teaching and selective synaptic dampening."""

from __future__ import annotations

from unlearnbench import Register, hookimpl


@hookimpl
def register_unlearners(register: Register) -> None:
    """Announce all four."""
    where = "unlearnbench_baselines"
    register(
        "finetune",
        f"{where}.finetune:Finetune",
        summary="Training goes on, on what is retained.",
        look=("#9955FF", "star"),
    )
    register(
        "neggrad-plus",
        f"{where}.neggrad:NegGradPlus",
        summary="Down the loss of what is retained and up that of the request, in one step.",
        look=("#55DDFF", "diamond"),
    )
    register(
        "bad-teacher",
        f"{where}.teaching:BadTeacher",
        summary="Taught by an untrained network on the request, by its former self elsewhere.",
        look=("#335500", "circle"),
    )
    register(
        "ssd",
        f"{where}.dampening:Dampening",
        summary="Parameters that matter more to the request than to all nodes are made smaller.",
        look=("#DD00DD", "up"),
    )
