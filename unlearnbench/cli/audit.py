"""`unlearnbench audit`."""

from __future__ import annotations

from typing import Any

import click

from unlearnbench.cli import options
from unlearnbench.cli.grid import grid, settings
from unlearnbench.registry.brackets import split_names
from unlearnbench.running.options import AUDIT_DEFAULTS


@click.command("audit", cls=options.Command, short_help="Ask whether forgotten data is really gone.")
@click.argument("audits", metavar="NAMES")
@grid(**AUDIT_DEFAULTS)
@click.option("--no-estimate", is_flag=True, help="Do not time each method once to say how long it will take.")
@click.option("--strict", is_flag=True, help="End with exit code 1 if the claim of a method does not hold.")
def command(
    audits: str,
    dry_run: bool,
    tolerate_failures: bool,
    as_json: bool,
    no_estimate: bool,
    strict: bool,
    **given: Any,
) -> int:
    """Audit methods: NAMES are audits with commas, or all.

    Retrain is audited along. A larger share than a run forgets is the default: with 0.5 % of the
    nodes few audits tell a retrained model from an untouched one. An audit that has a record is
    not made again: running the same command again goes on where it was interrupted.

    \b
    Examples:
      unlearnbench audit exactness --methods sisa,graphrevoker
      unlearnbench audit all -m sisa,grapheraser,graphrevoker -d cora
      unlearnbench ls audit
    """  # noqa: D301
    from unlearnbench.cli.running import audit_with_progress

    config = settings(given, AUDIT_DEFAULTS)
    names = split_names([audits])
    return audit_with_progress(config, names, dry_run, tolerate_failures, not no_estimate, as_json, strict)
