"""`unlearnbench audit` from Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from unlearnbench.api.callbacks import OnRecord
from unlearnbench.api.run import computed, named
from unlearnbench.api.session import names_of
from unlearnbench.audits.base import Audit
from unlearnbench.audits.running import make_audit_plan
from unlearnbench.records.record import Record
from unlearnbench.registry.brackets import split_names
from unlearnbench.registry.loading import load_and_report
from unlearnbench.running.config import make_config
from unlearnbench.running.options import AUDIT_DEFAULTS, with_defaults


def audit(
    audits: Sequence[Any] | type[Any] | str,
    methods: Sequence[Any] | type[Any] | str,
    *,
    progress: bool | None = None,
    on_record: OnRecord | None = None,
    **settings: Any,
) -> list[Record]:
    """Audit methods and return the records: `unlearnbench audit` from Python.

    `record.audit` holds the verdict and the scores; `load_records` reads runs alone.

    Args:
        audits: Brackets, or one text with commas, or `all`; classes of this session too.
        methods: As in `run`. Retrain is audited along.
        progress: Whether to show how far it is; None: only in a notebook.
        on_record: Called with each record that was made, once it is saved.
        **settings: As in `run`; unless they say otherwise, one repetition and 5 % of the nodes to forget.

    Returns:
        One record per audit, method and cell of the grid, including those of earlier audits.

    Raises:
        UsageError: The request cannot be carried out; nothing was started.
        NothingMatchedError: No audit applies to a named method.
        WriteError: A record cannot be written.
    """
    texts = names_of(audits, "audit")
    names = split_names([texts] if isinstance(texts, str) else texts)
    values = with_defaults(named({"methods": methods, **settings}), AUDIT_DEFAULTS)
    config = make_config(values, "unlearnbench.audit")
    catalogue = load_and_report(config.disable_plugins)
    plan = make_audit_plan(config, names, catalogue)
    return computed(plan, Audit.auditor(catalogue), progress, on_record, "unlearnbench.audit")
