"""unlearnbench: a benchmark harness for graph unlearning."""
