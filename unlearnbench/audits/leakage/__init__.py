"""Whether a kept partition reveals which nodes were present when it was made."""
