"""Test tools for plugin authors: conformance classes, small graphs, and a search for what a method still holds.

`__init__.pyi` lists the public names. They are imported at first use: only the
conformance classes need `pytest`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
