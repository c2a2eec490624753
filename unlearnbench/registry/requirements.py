"""Optional modules that components need, and whether they are installed."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from unlearnbench.component import Component, Spec
from unlearnbench.errors import UsageError
from unlearnbench.registry.catalogue import reason_of


@dataclass(frozen=True)
class Requirement:
    """A module that a component imports, what to install by pip, and whether it can be imported here.

    The reason is why an installed module cannot be imported; it is empty if it is not installed.
    """

    module: str
    pip: str
    is_met: bool
    reason: str = ""

    @property
    def remedy(self) -> str:
        """The command that installs it, quoted for any shell."""
        return f'pip install "{self.pip}"' if set(self.pip) & set("[]<>=!~; ") else f"pip install {self.pip}"

    def describe(self) -> str:
        """Describe in a few words whether it is installed."""
        if self.is_met:
            return "installed"
        if self.reason:
            return f"installed, but cannot be imported: {self.reason}"
        return f"not installed: {self.remedy}"


def require_module(module: str, pip: str) -> Requirement:
    """Import a module to check whether it can be used.

    Only importing it shows that: a compiled module may be installed while a library it links to is missing.
    """
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        absent = error.name is not None and f"{module}.".startswith(f"{error.name}.")
        return Requirement(module, pip, False, "" if absent else reason_of(error))
    except (Exception, SystemExit) as error:  # a foreign module may fail in any way; its user needs the reason
        return Requirement(module, pip, False, reason_of(error))
    return Requirement(module, pip, True)


def requirements_of(cls: type[Component]) -> list[Requirement]:
    """Check every module that a component's class names in `requires`.

    Raises:
        UsageError: `requires` is no mapping of module names to what to install.
    """
    requires = cls.requires
    if not isinstance(requires, Mapping) or not all(
        isinstance(text, str) and text for pair in requires.items() for text in pair
    ):
        raise UsageError(
            f"{cls.__name__}.requires is {requires!r}.",
            'It maps modules to what to install by pip: {"pymetis": "unlearnbench[metis]"}.',
        )
    return [require_module(module, pip) for module, pip in requires.items()]


def requirements_of_tree(spec: Spec) -> Iterator[tuple[Spec, Requirement]]:
    """Yield the requirements of a component and of all its parts, each with its owner."""
    for need in requirements_of(spec.cls):
        yield spec, need
    for _, chosen in spec.parts():
        yield from requirements_of_tree(chosen)


def check_requirements(specs: Iterable[Spec]) -> None:
    """Check that everything that components and their parts need is installed.

    Raises:
        UsageError: Something is not installed or cannot be imported; names each component and
            module, and the commands that install them.
    """
    problems: dict[str, str] = {}
    for root in specs:
        for spec, need in requirements_of_tree(root):
            if need.is_met:
                continue
            state = f"is installed but cannot be imported: {need.reason}" if need.reason else "is not installed"
            where = "" if spec is root else f" of {root.label}"
            problem = f"The {spec.kind} {spec.name!r}{where} needs the module {need.module!r}, which {state}."
            problems.setdefault(problem, need.remedy)
    if problems:
        raise UsageError("\n".join(problems), "\n".join(dict.fromkeys(problems.values())))
