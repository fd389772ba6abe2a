"""What the exporters of Kimi K3 and Kimi Linear share: configuration, weights, layers, the writer of the graph."""
