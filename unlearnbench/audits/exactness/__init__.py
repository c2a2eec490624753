"""Is the deployed state the one of a run that never saw the data, and from which nodes was it computed?"""
