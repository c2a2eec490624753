"""unlearnbench: a benchmark harness for graph unlearning.

`__init__.pyi` lists the public names. They are looked up when they are first used, so that
importing the package imports neither torch nor pandas.
"""

from typing import Any

import lazy_loader

_find, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("unlearnbench")
    return _find(name)
