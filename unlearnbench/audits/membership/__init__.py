"""Whether predictions reveal, node by node, that a forgotten node was trained on."""
