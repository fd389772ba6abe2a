"""The configuration of a Kimi Linear or Kimi K3 text model, from the config.json of a released checkpoint.

K3 nests the text model under `text_config`; Kimi Linear has the same fields at the top. Every field that the graph
depends on is checked here, so that the layers need not: an impossible value is an ExportError that names the field.
"""
import copy
import dataclasses
import json
import os

from .errors import ExportError

MXFP4_GROUP = 32


@dataclasses.dataclass(frozen=True)
class Config:
    """Sizes and switches of the text model. Layer indices are 0-based; widths are counts of elements."""
    name: str
    vocab: int
    hidden: int
    layers: int
    mla_layers: frozenset  # 0-based; every other layer is KDA
    block: int  # layers between AttnRes boundaries; 0: plain residuals
    eps: float  # of every RMSNorm but those of the two low-rank projections
    lora_eps: float  # of q_a_layernorm and kv_a_layernorm
    l2_eps: float  # added to the sum of squares of a query or key of KDA
    kda_heads: int
    kda_dim: int
    conv: int  # taps of the short convolution
    full_gate: bool  # output gate of KDA: g_proj, else g_a_proj and g_b_proj
    lower_bound: float | None  # bound of the log-decay (K3); None: the softplus gate (Kimi Linear)
    heads: int  # of MLA
    q_lora: int | None  # None: q_proj alone
    kv_lora: int
    nope: int
    rope: int  # the key part that heads share; it is not rotated
    v_dim: int
    mla_gate: bool
    dense_width: int
    experts: int  # 0: every layer is dense
    topk: int
    first_dense: int
    moe_freq: int
    shared_experts: int  # one fused MLP of this many expert widths
    expert_width: int
    latent: int | None  # width at which routed experts work; None: hidden
    latent_norm: bool
    router: str  # sigmoid or softmax
    renormalize: bool
    scaling: float
    groups: int  # 1: no groups
    topk_groups: int
    act: str  # situ or silu
    beta: float
    linear_beta: float | None  # None: the linear half of SiTU is not bounded
    mxfp4: bool  # the configuration says that routed experts are MXFP4
    tied: bool
    mtp_layers: int  # layers after the last that predict further tokens: not exported

    @property
    def kda_width(self):
        return self.kda_heads * self.kda_dim

    @property
    def expert_in(self):
        return self.latent or self.hidden

    def is_mla(self, layer):
        return layer in self.mla_layers

    def is_moe(self, layer):
        return self.experts > 0 and layer >= self.first_dense and layer % self.moe_freq == 0


class Fields:
    """Reads typed fields of one JSON object; `where` prefixes messages."""

    def __init__(self, data, where):
        if not isinstance(data, dict):
            raise ExportError(f"{where}: expected a JSON object")
        self.data, self.where = data, where

    def fail(self, key, want):
        given = json.dumps(self.data[key]) if key in self.data else "nothing"
        raise ExportError(f"{self.where}: '{key}' must be {want}; it is {given}")

    def part(self, key):
        """The fields of an object within this one; none where it is absent."""
        return Fields(self.data.get(key) or {}, f"{self.where}.{key}")

    def count(self, key, default=None, least=1):
        value = self.data.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 1 << 31:
            self.fail(key, f"an integer of at least {least}" + (" and less than 2^31" if type(value) is int and value >= least else ""))
        return value

    def optional_count(self, key):
        return None if self.data.get(key) is None else self.count(key)

    def number(self, key, default=None):
        value = self.data.get(key, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 1e300:
            self.fail(key, "a number")
        return float(value)

    def positive(self, key, default=None):
        value = self.number(key, default)
        if value <= 0:
            self.fail(key, "a positive number")
        return value

    def flag(self, key, default=False):
        value = self.data.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            self.fail(key, "true or false")
        return value

    def choice(self, key, choices, default=None):
        value = self.data.get(key, default)
        if value not in choices:
            self.fail(key, "one of " + ", ".join(choices))
        return value


def _layer_kinds(linear, layers):
    """The 0-based set of MLA layers, from two lists of 1-based indices that must share out all layers."""
    lists = {}
    for key in ("full_attn_layers", "kda_layers"):
        given = linear.data.get(key)
        if not isinstance(given, list) or any(isinstance(i, bool) or not isinstance(i, int) for i in given):
            linear.fail(key, "a list of 1-based layer numbers")
        lists[key] = given
    both = sorted(lists["full_attn_layers"] + lists["kda_layers"])
    if both != list(range(1, layers + 1)):
        raise ExportError(f"{linear.where}: 'full_attn_layers' and 'kda_layers' must name each of the layers 1..{layers} once")
    return frozenset(i - 1 for i in lists["full_attn_layers"])


def _is_mxfp4(text):
    quantization = text.data.get("quantization_config")
    if quantization is None:
        return False
    fields = Fields(quantization, f"{text.where}.quantization_config")
    fields.choice("format", ["mxfp4-pack-quantized"])
    for name, group in fields.part("config_groups").data.items():
        weights = Fields(group, f"{fields.where}.config_groups.{name}").part("weights")
        if weights.data.get("group_size", MXFP4_GROUP) != MXFP4_GROUP:
            weights.fail("group_size", str(MXFP4_GROUP))
    return True


def parse(data, name="config.json"):
    """A Config from the object that config.json holds; ExportError where a field is missing, wrong or not supported."""
    text = Fields(data, name)
    if "text_config" in data:
        text = Fields(data["text_config"], f"{name}: text_config")
    linear = Fields(text.data.get("linear_attn_config"), f"{text.where}.linear_attn_config")
    layers = text.count("num_hidden_layers")
    heads = text.count("num_attention_heads")
    if not text.flag("mla_use_nope"):
        raise ExportError(f"{text.where}: 'mla_use_nope' is not true; rotary embeddings are not part of these models")
    if text.data.get("num_key_value_heads") not in (None, heads):
        text.fail("num_key_value_heads", f"num_attention_heads ({heads})")
    act = text.choice("hidden_act", ["situ", "silu"])
    experts = text.count("num_experts", 0, 0) if text.data.get("num_experts") is not None else 0
    grouped = text.flag("use_grouped_topk")
    groups = text.count("num_expert_group", 1) if grouped else 1
    topk_groups = text.count("topk_group", 1) if grouped else 1
    bound = linear.data.get("gate_lower_bound")
    if bound is not None and not linear.number("gate_lower_bound") < 0:
        linear.fail("gate_lower_bound", "a negative number or null")
    linear_beta = text.data.get("activation_situ_linear_beta")
    eps = text.positive("rms_norm_eps")
    config = Config(
        name=name, vocab=text.count("vocab_size"), hidden=text.count("hidden_size"), layers=layers,
        mla_layers=_layer_kinds(linear, layers), block=text.optional_count("attn_res_block_size") or 0, eps=eps,
        lora_eps=text.positive("lora_norm_eps", 1e-6), l2_eps=text.positive("qk_l2_eps", 1e-6), kda_heads=linear.count("num_heads"),
        kda_dim=linear.count("head_dim"), conv=linear.count("short_conv_kernel_size", least=2), full_gate=linear.flag("use_full_rank_gate"),
        lower_bound=None if bound is None else float(bound), heads=heads, q_lora=text.optional_count("q_lora_rank"),
        kv_lora=text.count("kv_lora_rank"), nope=text.count("qk_nope_head_dim"), rope=text.count("qk_rope_head_dim"),
        v_dim=text.count("v_head_dim"), mla_gate=text.flag("mla_use_output_gate"), dense_width=text.count("intermediate_size"), experts=experts,
        topk=text.count("num_experts_per_token") if experts else 0, first_dense=text.count("first_k_dense_replace", 0, 0),
        moe_freq=text.count("moe_layer_freq", 1), shared_experts=text.count("num_shared_experts", 0, 0) if text.data.get("num_shared_experts") else 0,
        expert_width=text.count("moe_intermediate_size") if experts else 0, latent=text.optional_count("routed_expert_hidden_size"),
        latent_norm=text.flag("latent_moe_use_norm"), router=text.choice("moe_router_activation_func", ["sigmoid", "softmax"], "sigmoid"),
        renormalize=text.flag("moe_renormalize", True), scaling=text.number("routed_scaling_factor", 1.0), groups=groups, topk_groups=topk_groups,
        act=act, beta=text.number("activation_situ_beta") if text.data.get("activation_situ_beta") else 1.0,
        linear_beta=None if linear_beta is None else text.positive("activation_situ_linear_beta"), mxfp4=_is_mxfp4(text),
        tied=text.flag("tie_word_embeddings"), mtp_layers=text.count("num_nextn_predict_layers", 0, 0))
    _check(config, text)
    return config


def _check(c, text):
    if c.experts and c.topk > c.experts:
        text.fail("num_experts_per_token", f"at most num_experts ({c.experts})")
    if c.groups > 1:
        if c.experts % c.groups or c.experts // c.groups < 2:
            text.fail("num_expert_group", f"a divisor of num_experts ({c.experts}) that leaves two or more to a group")
        if c.topk_groups > c.groups:
            text.fail("topk_group", f"at most num_expert_group ({c.groups})")
        if c.topk > c.topk_groups * (c.experts // c.groups):
            text.fail("num_experts_per_token", "at most the experts of topk_group groups")
    if c.mxfp4:
        for key, width in (("routed_expert_hidden_size" if c.latent else "hidden_size", c.expert_in), ("moe_intermediate_size", c.expert_width)):
            if c.experts and width % MXFP4_GROUP:
                text.fail(key, f"a multiple of {MXFP4_GROUP} where experts are MXFP4")


def first_layers(data, count, name="config.json"):
    """A copy of config.json's object that describes the first `count` layers alone."""
    config = parse(data, name)
    if not 0 < count <= config.layers:
        raise ExportError(f"--layers must be from 1 to {config.layers}, the layers of {name}; it is {count}")
    data = copy.deepcopy(data)
    text = data.get("text_config", data)
    text["num_hidden_layers"] = count
    linear = text["linear_attn_config"]
    for key in ("full_attn_layers", "kda_layers"):
        linear[key] = [i for i in linear[key] if i <= count]
    return data


def read(path):
    """The object of a config.json file."""
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except OSError as error:
        raise ExportError(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise ExportError(f"{path}: not JSON: {error}") from None


def load(path):
    """A Config from a config.json file."""
    return parse(read(path), os.path.basename(path))
