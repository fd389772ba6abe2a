"""The states of a sequence as inputs `past_key_values.<layer>.*` and outputs `present.<layer>.*` of the graph.

  KDA   q_conv_state, k_conv_state, v_conv_state  [batch, heads·dim, taps-1]   activations' type: the last inputs of the convolution
        recurrent_state                           [batch, heads, dim, dim]     fp32, key dim first
  MLA   latent                                    [batch, past, rank+rope]     normed latent, then the shared key part
        or key                                    [batch, heads, past, nope+rope]
        and value                                 [batch, heads, past, v dim]

A new sequence starts from zeros and past = 0. With cache "none" there are no states: a graph for whole sequences.
"""
from .graph import FLOAT

CACHES = ("latent", "expanded", "none")


class States:
    def __init__(self, graph, config, cache):
        self.graph, self.config, self.cache = graph, config, cache

    def pair(self, layer, name, dtype, past, present):
        """(input, output) names of one state; without a cache ("", a name that nothing reads)."""
        if self.cache == "none":
            return "", name
        return (self.graph.input(f"past_key_values.{layer}.{name}", dtype, ["batch", *past]),
                self.graph.output(f"present.{layer}.{name}", dtype, ["batch", *present]))

    def window(self, layer, which):
        shape = [self.config.kda_width, self.config.conv - 1]
        return self.pair(layer, f"{which}_conv_state", self.graph.type, shape, shape)

    def recurrent(self, layer):
        shape = [self.config.kda_heads, self.config.kda_dim, self.config.kda_dim]
        return self.pair(layer, "recurrent_state", FLOAT, shape, shape)

    def latent(self, layer):
        width = self.config.kv_lora + self.config.rope
        return self.pair(layer, "latent", self.graph.type, ["past", width], ["past + seq", width])

    def expanded(self, layer):
        c, pairs = self.config, []
        for name, width in (("key", c.nope + c.rope), ("value", c.v_dim)):
            pairs.append(self.pair(layer, name, self.graph.type, [c.heads, "past", width], [c.heads, "past + seq", width]))
        return pairs
