"""Where cells and members are computed, other than in this process: local processes and Dask."""
