"""From a bracket to a component with every parameter, and to the one label of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plugin_samples import FakePoint, component, plugin_of
from pydantic import Field, field_validator

from unlearnbench.component import Component, ComponentParams, Spec, part, part_kinds
from unlearnbench.errors import UsageError
from unlearnbench.registry.brackets import Bracket
from unlearnbench.registry.catalogue import Catalogue
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.registry.resolve import resolve


class Cut(Component):
    name = "cut"
    version = 3

    class Params(ComponentParams):
        slack: float = Field(default=0.1, ge=0, le=1, description="Room.")
        rounds: int = Field(default=5, ge=1, description="Rounds.")
        rule: Literal["greedy", "paper"] = Field(default="greedy", description="Rule.")
        shuffle: bool = Field(default=True, description="Shuffle first.")


class Hash(Component):
    name = "hash"


class Vote(Component):
    name = "vote"

    class Params(ComponentParams):
        rounds: int = Field(default=2, ge=1, description="Rounds.")
        sem_weight: float = Field(default=1.0, ge=0, description="Weight.")
        ties: str = Field(default="lowest", description="Who wins.")


class Layered(Component):
    """An aggregator with a part of its own."""

    name = "layered"

    class Params(ComponentParams):
        width: int = Field(default=8, ge=1, description="Width.")
        inner: Spec = part("aggregator", "vote", "What it votes with.")


class Method(Component):
    name = "method"
    default_preset = "repaired"
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "paper": {"partitioner.slack": 0.5, "partitioner.rule": "paper", "aggregator.rounds": 9, "num_shards": 7},
        "hashed": {"partitioner": "hash"},
        "wrong": {"partitoner.slack": 0.5},
    }

    class Params(ComponentParams):
        num_shards: int = Field(default=20, ge=1, description="Shards.")
        partitioner: Spec = part("partitioner", "cut", "Deals nodes.")
        aggregator: Spec = part("aggregator", "vote", "Combines.")


class Tuned(Component):
    """A method whose part has other values by default than the part's own."""

    name = "tuned"

    class Params(ComponentParams):
        partitioner: Spec = part("partitioner", "cut[slack=0.4]", "Deals nodes.")
        aggregator: Spec = part("aggregator", "layered[rounds=4]", "Combines.")


class Demanding(Component):
    name = "demanding"

    class Params(ComponentParams):
        width: int = Field(ge=1, description="Has no default.")

        @field_validator("width")
        @classmethod
        def _even(cls, width: int) -> int:
            if width % 2:
                raise ValueError("must be even")
            return width


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    plugin = plugin_of(
        partitioners=[Cut, Hash], aggregators=[Vote, Layered], unlearners=[Method, Tuned], models=[Demanding]
    )
    return load_catalogue(entry_points=[FakePoint("made", plugin, "unlearnbench")])


@pytest.fixture(scope="module")
def installed() -> Catalogue:
    return load_catalogue()


def values(spec: Spec) -> dict[str, Any]:
    """Flatten a spec: dotted key to value."""
    found: dict[str, Any] = {}
    parts = dict(spec.parts())
    for key in type(spec.params).model_fields:
        if key in parts:
            found[key] = parts[key].name
            found |= {f"{key}.{inner}": value for inner, value in values(parts[key]).items()}
        else:
            found[key] = getattr(spec.params, key)
    return found


DEFAULTS = {
    "num_shards": 20, "partitioner": "cut", "partitioner.slack": 0.1, "partitioner.rounds": 5,
    "partitioner.rule": "greedy", "partitioner.shuffle": True, "aggregator": "vote", "aggregator.rounds": 2,
    "aggregator.sem_weight": 1.0, "aggregator.ties": "lowest",
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("method", {}),
        ("method[num_shards=3]", {"num_shards": 3}),
        ("method[sem_weight=0]", {"aggregator.sem_weight": 0.0}),
        ("method[slack=0.25,shuffle=false]", {"partitioner.slack": 0.25, "partitioner.shuffle": False}),
        ("method[partitioner.rounds=1]", {"partitioner.rounds": 1}),
        ("method[aggregator.rounds=1]", {"aggregator.rounds": 1}),
        ("method[partitioner=cut[slack=0]]", {"partitioner.slack": 0.0}),
        ("method[partitioner=cut[slack=0],rule=paper]", {"partitioner.slack": 0.0, "partitioner.rule": "paper"}),
        ('method[ties="a, b"]', {"aggregator.ties": "a, b"}),
    ],
)  # fmt: skip
def test_values_reach_the_part_that_has_them(catalogue: Catalogue, text: str, changed: dict[str, Any]) -> None:
    assert values(resolve(catalogue, "unlearner", text)) == {**DEFAULTS, **changed}


def test_keys_reach_parts_of_parts(catalogue: Catalogue) -> None:
    for key in ("sem_weight", "aggregator.sem_weight", "aggregator.inner.sem_weight", "inner.sem_weight"):
        spec = resolve(catalogue, "unlearner", f"method[aggregator=layered,{key}=0]")
        assert values(spec)["aggregator.inner.sem_weight"] == 0
        assert spec.label == "method[aggregator=layered[sem_weight=0]]"


def test_defaults_of_a_part_hold_under_what_is_given(catalogue: Catalogue) -> None:
    spec = resolve(catalogue, "unlearner", "tuned")
    assert (spec.label, values(spec)["partitioner.slack"], values(spec)["aggregator.inner.rounds"]) == ("tuned", 0.4, 4)
    changed = resolve(catalogue, "unlearner", "tuned[slack=0.1,inner.rounds=3]")
    assert (values(changed)["partitioner.slack"], values(changed)["aggregator.inner.rounds"]) == (0.1, 3)
    # A part named anew has its own defaults, not those it would have had here.
    anew = resolve(catalogue, "unlearner", "tuned[partitioner=cut]")
    assert values(anew)["partitioner.slack"] == 0.1
    assert anew.label == resolve(catalogue, "unlearner", "tuned[slack=0.1]").label


def test_ambiguous_key_names_the_dotted_forms(catalogue: Catalogue) -> None:
    with pytest.raises(UsageError) as caught:
        resolve(catalogue, "unlearner", "method[rounds=1]")
    assert "'rounds'" in str(caught.value)
    assert "partitioner.rounds=... or aggregator.rounds=..." in str(caught.value)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("method[slack=0,partitioner.slack=1]", "partitioner.slack"),
        ("method[partitioner=cut[slack=0],slack=1]", "partitioner.slack"),
        ("method[partitioner=cut[slack=0],partitioner.slack=0]", "partitioner.slack"),
        ("method[aggregator=layered[sem_weight=1,inner.sem_weight=1]]", "inner.sem_weight"),
    ],
)
def test_one_parameter_by_two_names_is_given_twice(catalogue: Catalogue, text: str, key: str) -> None:
    with pytest.raises(UsageError, match=f"'{key}' is given twice"):
        resolve(catalogue, "unlearner", text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("method[sem_wieght=0]", "method has no parameter 'sem_wieght'.\nDid you mean aggregator.sem_weight?"),
        ("method[slak=0]", "Did you mean partitioner.slack?"),
        ("method[num_shard=3]", "Did you mean num_shards"),
        ("method[partitoner=hash]", "Did you mean partitioner"),
        ("method[partitioner.slak=0]", "cut has no parameter 'slak'.\nDid you mean slack?"),
        ("method[partitioner=hash[slack=0]]", "hash has no parameter 'slack'.\nKnown: none."),
        ("method[partitioner=hahs]", "Unknown partitioner 'hahs'.\nDid you mean hash?"),
        ('method[partitioner=""]', "expected a name"),
        ("method[aggregator=cut]", "Unknown aggregator 'cut'"),
        ("method[preset=papre]", "method has no preset 'papre'.\nKnown: repaired, paper"),
        ("method[preset=wrong]", "method has no parameter 'partitoner.slack'"),
        ("cut[slack=0]", "Unknown method 'cut'"),
        ("method[slack=2]", "cut[slack=2]: Input should be less than or equal to 1"),
        ("method[partitioner=cut[rounds=0]]", "cut[rounds=0]: Input should be greater than or equal to 1"),
        ("method[num_shards=2.5]", "method[num_shards=2.5]: Input should be a valid integer"),
        ("method[slack=nan]", "cut[slack=nan]: Input should be a finite number"),
        ("method[rule=best]", "cut[rule=best]: Input should be 'greedy' or 'paper'"),
        ("method[shuffle=maybe]", "cut[shuffle=maybe]"),
        ("method[num_shards=three[a=1]]", "method: 'num_shards' takes no brackets"),
    ],
)
def test_errors_name_component_key_and_value(catalogue: Catalogue, text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        resolve(catalogue, "unlearner", text)
    assert said in str(caught.value)


def test_a_parameter_without_a_default_must_be_given(catalogue: Catalogue) -> None:
    with pytest.raises(UsageError, match="demanding: 'width' has no default and must be given"):
        resolve(catalogue, "model", "demanding")
    assert resolve(catalogue, "model", "demanding[width=04]").label == "demanding[width=4]"
    with pytest.raises(UsageError, match=r"demanding\[width=3\]: .*must be even"):
        resolve(catalogue, "model", "demanding[width=3]")


PAPER = {
    "num_shards": 7, "partitioner.slack": 0.5, "partitioner.rule": "paper", "aggregator.rounds": 9,
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("method[preset=paper]", PAPER),
        ("method[preset=repaired]", {}),
        ("method[preset=paper,slack=0.2]", {**PAPER, "partitioner.slack": 0.2}),
        ("method[preset=paper,num_shards=20]", {**PAPER, "num_shards": 20}),
        # A part named anew, were it the same one, is no longer the one that the preset speaks of.
        ("method[preset=paper,partitioner=cut]", {"num_shards": 7, "aggregator.rounds": 9}),
        (
            "method[preset=paper,partitioner=cut[rule=paper]]",
            {"num_shards": 7, "aggregator.rounds": 9, "partitioner.rule": "paper"},
        ),
    ],
)
def test_presets_apply_under_explicit_values(catalogue: Catalogue, text: str, changed: dict[str, Any]) -> None:
    spec = resolve(catalogue, "unlearner", text)
    assert values(spec) == {**DEFAULTS, **changed}
    assert spec.preset == ("repaired" if "repaired" in text else "paper")


def test_preset_does_not_leak_into_a_replaced_part(catalogue: Catalogue) -> None:
    spec = resolve(catalogue, "unlearner", "method[preset=paper,partitioner=hash]")
    assert [key for key in values(spec) if key.startswith("partitioner")] == ["partitioner"]
    assert values(spec)["partitioner"] == "hash"
    assert values(spec)["aggregator.rounds"] == 9


def test_preset_can_choose_a_part_and_the_user_another(catalogue: Catalogue) -> None:
    assert values(resolve(catalogue, "unlearner", "method[preset=hashed]"))["partitioner"] == "hash"
    assert values(resolve(catalogue, "unlearner", "method[preset=hashed,partitioner=cut]"))["partitioner"] == "cut"


def test_canonical_holds_the_whole_tree(catalogue: Catalogue) -> None:
    assert resolve(catalogue, "unlearner", "method[preset=paper,sem_weight=0]").canonical() == {
        "name": "method",
        "version": 1,
        "preset": "paper",
        "params": {
            "num_shards": 7,
            "partitioner": {
                "name": "cut",
                "version": 3,
                "params": {"slack": 0.5, "rounds": 5, "rule": "paper", "shuffle": True},
            },
            "aggregator": {
                "name": "vote",
                "version": 1,
                "params": {"rounds": 9, "sem_weight": 0.0, "ties": "lowest"},
            },
        },
    }


def test_canonical_follows_the_versions_of_parts() -> None:
    newer = type("Newer", (Cut,), {"version": 4})
    trees = []
    for cut in (Cut, newer):
        plugin = plugin_of(partitioners=[cut], aggregators=[Vote], unlearners=[Method])
        found = load_catalogue(entry_points=[FakePoint("made", plugin, "unlearnbench")])
        trees.append(resolve(found, "unlearner", "method").canonical())
    assert trees[0] != trees[1]
    assert trees[1]["params"]["partitioner"]["version"] == 4


def test_two_distributions_with_one_name_are_two_components() -> None:
    points = [FakePoint("cut", plugin_of(partitioners=[Cut]), distribution) for distribution in ("ub-a", "ub-b")]
    both = load_catalogue(entry_points=points)
    specs = [resolve(both, "partitioner", f"{distribution}:cut[slack=0]") for distribution in ("ub-a", "ub-b")]
    assert [spec.canonical()["distribution"] for spec in specs] == ["ub-a", "ub-b"]
    assert [spec.label for spec in specs] == ["ub-a:cut[slack=0]", "ub-b:cut[slack=0]"]
    alone = load_catalogue(entry_points=points[:1])
    assert resolve(alone, "partitioner", "ub-a:cut").label == resolve(alone, "partitioner", "cut").label == "cut"
    assert resolve(alone, "partitioner", "cut[slack=0]").canonical() == specs[0].canonical()


@pytest.mark.parametrize(
    ("label", "others"),
    [
        ("method", ["method[]", "method[num_shards=20]", "method[preset=repaired,slack=0.1]", "method[partitioner=cut]",
                    "method[aggregator=vote[rounds=2]]", "method[partitioner=cut[slack=0.10],aggregator.rounds=2]"]),
        ("method[sem_weight=0]", ["method[sem_weight=0.0]", "method[aggregator.sem_weight=0]",
                                  "method[aggregator=vote[sem_weight=0e3],num_shards=20]"]),
        ("method[partitioner.rounds=1]", ["method[partitioner=cut[rounds=1]]"]),
        ("method[num_shards=3,slack=0.2]",
         ["method[slack=.2,num_shards=3]", "method[partitioner=cut[slack=.2],num_shards=3]"]),
        ("method[partitioner=hash]", ["method[partitioner=hash[],num_shards=20]"]),
        ("method[shuffle=false]", ["method[shuffle=False]", "method[shuffle=0]"]),
        ("method[preset=paper]", ["method[slack=0.5,preset=paper]", "method[preset=paper,num_shards=7]"]),
        ("method[preset=paper,partitioner=cut]", ["method[preset=paper,slack=0.1,rule=greedy]"]),
        ("method[preset=paper,partitioner=hash]", ["method[partitioner=hash,preset=paper,aggregator.rounds=9]"]),
        ("method[preset=paper,slack=0.2]", ["method[preset=paper,partitioner=cut[slack=0.2,rule=paper]]"]),
        ('method[ties="a, b"]', ['method[aggregator=vote[ties="a, b"]]']),
    ],
)  # fmt: skip
def test_equal_specs_have_one_label_and_it_is_the_shortest(catalogue: Catalogue, label: str, others: list[str]) -> None:
    spec = resolve(catalogue, "unlearner", label)
    assert spec.label == label
    for text in others:
        other = resolve(catalogue, "unlearner", text)
        assert other.canonical() == spec.canonical(), text
        assert other.label == label, text


@pytest.mark.parametrize(
    "label",
    ["retrain", "sisa[num_shards=3]", "sisa[aggregator=majority]", "graphrevoker[sem_weight=0,time_weight=0]",
     "graphrevoker[partitioner.epochs=5]", "graphrevoker[preset=paper]", "graphrevoker[preset=released,keep=0.5]",
     "grapheraser[slack=0]", "sharded[partitioner=gpa,aggregator=contrastive]",
     "sharded[partitioner=hash,aggregator=mean]",
     "sharded[partitioner=bekm[slack=0],aggregator=mean,num_shards=7]"],
)  # fmt: skip
def test_labels_of_first_party_methods(installed: Catalogue, label: str) -> None:
    assert resolve(installed, "unlearner", label).label == label


def _arguments(cls: type[Component]) -> st.SearchStrategy[dict[str, Any]]:
    """Draw some values for a component's parameters, its own defaults among them."""
    drawn: dict[str, st.SearchStrategy[str]] = {}
    for key, info in cls.Params.model_fields.items():
        choices = [info.default]
        if isinstance(info.default, bool):
            choices += [not info.default]
        elif isinstance(info.default, int | float):
            choices += [info.default / 2 if isinstance(info.default, float) else info.default + 1]
        drawn[key] = st.sampled_from([str(choice) for choice in choices])
    return st.fixed_dictionaries({}, optional=drawn)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_label_reads_back_as_the_same_spec(catalogue: Catalogue, data: st.DataObject) -> None:
    arguments = data.draw(st.fixed_dictionaries({}, optional={"preset": st.sampled_from(["repaired", "paper"])}))
    for key, cls in (("partitioner", Cut), ("aggregator", Vote)):
        inner = data.draw(_arguments(cls))
        if data.draw(st.booleans()):
            arguments[key] = Bracket(cls.name, inner)
        else:
            arguments |= {f"{key}.{name}": value for name, value in inner.items()}
    spec = resolve(catalogue, "unlearner", Bracket("method", arguments))
    again = resolve(catalogue, "unlearner", spec.label)
    assert again.canonical() == spec.canonical()
    assert again.label == spec.label
    assert spec.label.count("=") <= str(Bracket("method", arguments)).count("=")
    json.dumps(spec.canonical(), allow_nan=False)


def test_parts_are_given_in_order_and_built(catalogue: Catalogue) -> None:
    spec = resolve(catalogue, "unlearner", "method[partitioner=hash,sem_weight=0]")
    assert [(key, found.kind, found.name) for key, found in spec.parts()] == [
        ("partitioner", "partitioner", "hash"),
        ("aggregator", "aggregator", "vote"),
    ]
    method = spec.build()
    assert isinstance(method, Method)
    aggregator = method.params.aggregator.build()
    assert isinstance(aggregator, Vote)
    assert aggregator.params.sem_weight == 0


def test_part_declares_kind_default_and_description() -> None:
    assert part_kinds(Method.Params) == {"partitioner": "partitioner", "aggregator": "aggregator"}
    assert part_kinds(Cut.Params) == {}
    info = Method.Params.model_fields["partitioner"]
    assert (info.default, info.description) == ("cut", "Deals nodes.")


def test_a_component_without_params_has_none() -> None:
    assert component("plain")().params.model_dump() == {}
    with pytest.raises(ValueError, match="Extra inputs"):
        component("plain").Params(unknown=1)
