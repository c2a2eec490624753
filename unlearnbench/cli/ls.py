"""`unlearnbench ls`."""

from __future__ import annotations

import json

import click

from unlearnbench import messages
from unlearnbench.cli import options
from unlearnbench.cli.lists import definitions
from unlearnbench.cli.program import program
from unlearnbench.errors import unknown_name
from unlearnbench.hookspecs import HOOKS, METHOD, kind_of

KINDS = {
    METHOD: "What forgets: compared by run, audited by audit.",
    "dataset": "Graphs.",
    "model": "Graph neural networks that methods train.",
    "partitioner": "What cuts a graph into shards.",
    "aggregator": "What joins the predictions of shards.",
    "metric": "Scores beside the package's own.",
    "audit": "Checks of whether data is really gone.",
    "table": "What report prints.",
    "experiment": "Comparisons that come with the package, for run --experiment.",
}
"""The kinds in the order they are listed, each with what it is."""
# A kind by any word for it: the names of hooks, and plurals.
WORDS = {**{kind: kind for kind in (*HOOKS, *KINDS)}, "unlearner": METHOD}
WORDS |= {f"{word}s": kind for word, kind in WORDS.items()}


@click.command("ls", cls=options.Command, short_help="List components, tables or experiments.")
@click.argument("kind", required=False)
@options.as_json
@options.disable_plugin
@options.debug
def command(kind: str | None, as_json: bool, disable_plugins: tuple[str, ...]) -> None:
    """List what there is of a KIND: method, dataset, model, partitioner, aggregator, metric, audit, table, experiment.

    Plurals are understood. Without KIND the kinds are listed with how many there are of each.
    """
    from unlearnbench.registry.loading import load_and_report

    if kind is not None and kind not in WORDS:
        raise unknown_name("kind", kind, KINDS)
    catalogue = load_and_report(disable_plugins)
    if kind is None:
        counts = {each: len(catalogue.all(kind_of(each))) for each in KINDS}
        if as_json:
            print(json.dumps(counts, indent=1))
            return
        width = max(len(str(count)) for count in counts.values())
        print(definitions("", [(f"{counts[each]:>{width}} {each}", meaning) for each, meaning in KINDS.items()], ""))
        print(f"\nList one kind: {program()} ls methods")
        return
    entries = catalogue.all(kind_of(WORDS[kind]))
    names = [catalogue.asked_for(entry) for entry in entries]
    if as_json:
        rows = [
            {"name": name, "summary": e.summary, "distribution": e.distribution}
            for name, e in zip(names, entries, strict=True)
        ]
        print(json.dumps(rows, indent=1))
        return
    sources = {entry: f"{entry.distribution} {entry.distribution_version}" for entry in entries}
    # What all of them come from need not be said of each.
    own = "" if len(set(sources.values())) > 1 else next(iter(sources.values()), "")
    texts = [entry.summary if own else f"{entry.summary}  ({sources[entry]})" for entry in entries]
    print(definitions("", list(zip(names, texts, strict=True)), ""))
    if own:
        messages.note(f"all from {own}.")
    if not entries:
        messages.note(f"no {WORDS[kind]} is registered.")
