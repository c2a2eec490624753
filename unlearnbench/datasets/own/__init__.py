"""Graphs of the user: `file:PATH` and PyG `Data` in memory."""
