"""Finds every tensor that can be reached from an object: what a method still holds."""

from unlearnbench.audits.exactness.reach import reachable_tensors as reachable_tensors
