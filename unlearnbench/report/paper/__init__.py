"""The tables that stand against the paper."""
