"""Whether an unlearned model relearns the forgotten nodes faster than a retrained one."""
