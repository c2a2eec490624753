"""Finds every tensor that is reachable from an object, to show what a method still holds."""

from unlearnbench.audits.exactness.reach import reachable_tensors as reachable_tensors
