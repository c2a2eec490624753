"""The digits of a record: enough to tell its numbers apart, the same however often it is read."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unlearnbench.records.digits import (
    kept_of_audit,
    kept_of_digests,
    kept_of_metrics,
    kept_of_phase,
    kept_of_provenance,
    written_digests,
    written_provenance,
)

LONG = "0123456789abcdef" * 2
SIZES = st.one_of(st.none(), st.sampled_from([1.0, 1.0004, 2.0]), st.floats(0, 1e6))


def test_a_phase_keeps_microseconds_and_memory_that_it_added() -> None:
    grown = {"name": "fit", "seconds": 2 / 3, "start_rss_mib": 1.0, "peak_rss_mib": 2.0005}
    assert kept_of_phase(grown) == {"name": "fit", "seconds": 0.666667, "start_rss_mib": 1.0, "peak_rss_mib": 2.001}
    level = {"name": "fit", "seconds": None, "start_rss_mib": 1.0004, "peak_rss_mib": 1.0, "start_gpu_mib": 0.0}
    assert kept_of_phase(level) == {"name": "fit", "seconds": None, "peak_rss_mib": 1.0, "start_gpu_mib": 0.0}


def test_metrics_of_other_counts_of_nodes_stay_apart() -> None:
    most = 30_000
    shares = {"full": {"before": 12_345 / most, "after": 12_346 / most, "fresh": None}}
    kept = kept_of_metrics({"f1_micro": shares})["f1_micro"]["full"]
    assert kept == {"before": 0.4115, "after": 0.4115333333, "fresh": None}


def test_digests_of_older_records_are_those_of_newer_ones() -> None:
    older = {"before": {"members/000": LONG}, "after": {"members/000": LONG[::-1]}, "unchanged": False}
    newer = {"before": {"members/000": LONG[:12]}, "after": {"members/000": LONG[::-1][:12]}, "unchanged": False}
    assert kept_of_digests(older) == kept_of_digests(newer) == newer
    assert kept_of_digests({}) == {}


NAMES = st.sampled_from(
    ["members/000", "members/001", "members/003", "members/x", "members/\u0660", "members", "aggregator"]
)
DIGESTS = st.dictionaries(NAMES, st.sampled_from(["0" * 12, "1" * 12]))


@given(before=DIGESTS, after=DIGESTS)
def test_a_file_holds_what_changed_and_is_read_whole(before: dict[str, str], after: dict[str, str]) -> None:
    changed = [name for name in sorted({*before, *after}) if before.get(name) != after.get(name)]
    known = {"members/000": 0, "members/001": 1, "members/003": 3}
    numbers = [known[name] for name in changed if name in known]
    digests = {"before": before, "after": after, "members_changed": numbers, "unchanged": before == after}
    written = written_digests(digests)
    assert kept_of_digests(written) == digests
    assert set(written) == {"before", "changed"}
    assert all(before.get(name) != digest for name, digest in written["changed"].items())


@given(before=DIGESTS, after=DIGESTS, members=st.lists(st.integers(0, 3)), unchanged=st.booleans())
def test_what_contradicts_the_digests_stays(
    before: dict[str, str], after: dict[str, str], members: list[int], unchanged: bool
) -> None:
    digests = {"before": before, "after": after, "members_changed": members, "unchanged": unchanged}
    digests["relative_change"] = None
    assert kept_of_digests(written_digests(digests)) == digests


def test_members_stand_in_a_file_in_order_without_their_names() -> None:
    zero, one = "0" * 12, "1" * 12
    before = {"aggregator": one, "members/000": zero, "members/001": one, "members/003": zero}
    written = written_digests({"before": before, "after": before | {"members/001": zero}})
    assert written == {
        "before": {"members": [zero, one], "aggregator": one, "members/003": zero},
        "changed": {"members/001": zero},
    }


def test_digests_that_contradict_each_other_are_refused() -> None:
    twice = {"before": {"members": ["0" * 12], "members/000": "1" * 12}}
    both = {"before": {}, "after": {}, "changed": {}}
    for digests, reason in ((twice, "members/000 has two digests"), (both, "there twice")):
        with pytest.raises(ValueError, match=reason):
            kept_of_digests(digests)


def test_of_digests_that_are_not_both_there_nothing_is_left_out() -> None:
    for odd in ({}, {"before": {"a": LONG[:12]}}, {"after": {"a": LONG[:12]}}):
        assert kept_of_digests(written_digests(odd)) == odd


def test_the_reason_of_every_record_of_a_cpu_is_left_out_and_others_stay() -> None:
    reasons = {"peak_gpu_mib": "computed on cpu", "peak_rss_mib": "hidden", "seconds_per_shard": "in lockstep"}
    readings = {"sources": {"gpu": "none"}, "reasons": reasons}
    provenance = {"machine": "m-0001", "load": [0.12345, None], "other_cores": 2 / 3, "readings": readings}
    kept = kept_of_provenance(provenance)
    assert kept["readings"] == {
        "sources": {"gpu": "none"},
        "reasons": {"peak_rss_mib": "hidden"},
    }
    assert (kept["load"], kept["other_cores"]) == ([0.123, None], 0.667)
    assert kept_of_provenance(kept) == kept
    for odd in ({}, {"readings": None}, {"readings": {"reasons": {}}}):
        assert kept_of_provenance(odd) == odd
    assert kept_of_provenance({"readings": {"reasons": None}}) == {"readings": {"reasons": {}}}


PLUGINS = st.one_of(
    st.none(), st.dictionaries(st.sampled_from(["unlearnbench", "other"]), st.sampled_from(["0.1.0", None]))
)


@given(plugins=PLUGINS, ours=st.booleans(), reasons=st.sampled_from([None, {}, {"peak_rss_mib": "hidden"}]))
def test_a_file_says_which_plugins_only_where_not_all_are_ours(
    plugins: dict[str, str | None] | None, ours: bool, reasons: dict[str, str] | None
) -> None:
    given_provenance: dict[str, Any] = {"packages": {"torch": "2.13.0"} | ({"unlearnbench": "0.1.0"} if ours else {})}
    given_provenance |= {} if plugins is None else {"plugins": plugins}
    given_provenance["readings"] = {"sources": {"rss": "vmhwm"}, "reasons": reasons}
    kept = kept_of_provenance(given_provenance)
    written = written_provenance(kept)
    assert kept_of_provenance(written) == kept
    assert ("plugins" in written) == (plugins is not None and (not ours or plugins != {"unlearnbench": "0.1.0"}))
    assert ("reasons" in written["readings"]) == bool(reasons)


def test_what_a_score_has_not_is_left_out() -> None:
    score = {"measure": "auc", "where": "", "value": None, "low": None, "controls": {}, "note": "", "runs": 0, "p": 0.0}
    kept = {"measure": "auc", "value": None, "runs": 0, "p": 0.0}
    assert kept_of_audit({"verdict": "v", "scores": [score], "notes": []}) == {
        "verdict": "v",
        "scores": [kept],
        "notes": [],
    }


@pytest.mark.parametrize(("given_value", "kept"), [(1234567.0, 1234600.0), (0.000123456789, 0.00012346), (7, 7)])
def test_an_audit_keeps_five_digits(given_value: float, kept: float) -> None:
    assert kept_of_audit({"details": [{"value": given_value}], "verdict": "exact"}) == {
        "details": [{"value": kept}],
        "verdict": "exact",
    }


@given(seconds=SIZES, start=SIZES, peak=SIZES)
def test_what_was_kept_is_kept(seconds: float | None, start: float | None, peak: float | None) -> None:
    phase: dict[str, Any] = {"name": "fit", "seconds": seconds, "start_rss_mib": start, "peak_rss_mib": peak}
    once = kept_of_phase(phase)
    assert kept_of_phase(once) == once
    assert kept_of_audit(kept_of_audit(phase)) == kept_of_audit(phase)
