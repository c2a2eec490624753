"""Records on disk: what they hold, how they are written, read and checked."""
