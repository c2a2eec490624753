"""Whether the deployed state is that of a run that never saw the data, and from which nodes it was computed."""
