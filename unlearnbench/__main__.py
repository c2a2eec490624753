"""`python -m unlearnbench`."""

import sys

# Python puts the current folder in front of the path, where a `json.py` of someone's would be taken for Python's.
# The command `unlearnbench` has no such entry; `-P` and PYTHONSAFEPATH leave it out.
if __name__ == "__main__" and not sys.flags.safe_path:
    del sys.path[0]

from unlearnbench.cli import main

if __name__ == "__main__":
    main()
