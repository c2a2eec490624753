"""`python -m unlearnbench`."""

from unlearnbench.cli import main

if __name__ == "__main__":
    main()
