"""The Python API: run a grid, use one method, make a task from your own data."""
