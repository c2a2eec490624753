"""What plugin authors test with: conformance classes, small graphs, and a search for what a method still holds.

`__init__.pyi` lists the public names. They are looked up when they are first used: only the
conformance classes need `pytest`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
