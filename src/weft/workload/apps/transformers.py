"""Sizes of published transformers, and the parameters and operations that follow from them."""

from __future__ import annotations

from dataclasses import dataclass

from weft.core.registry import did_you_mean
from weft.workload.apps.application_registry import need


@dataclass(frozen=True)
class Transformer:
    """A decoder-only transformer.

    Parameters
    ----------
    source
        Publication with the sizes.
    layers, hidden, heads, kv_heads
        Number of layers, width of the hidden state, heads of queries, heads of keys and values.
    ffn
        Inner width of a feed-forward network.
    vocabulary, context
        Number of tokens; length of a sequence in (most of) the training.
    gated
        Whether feed-forward networks have three matrices (SwiGLU) rather than two.
    biased
        Whether there are biases, norms with biases, and learned positions, as in GPT-2.
    tied
        Whether the output layer is the input embedding.
    experts, active
        Experts of a layer, and those that compute a token; 0 without experts.
    shared
        Further experts of a layer that compute every token.
    expert_ffn
        Inner width of an expert.
    dense_layers
        Number of first layers that have a feed-forward network of width `ffn` and no experts.
    projections, scores
        Parameters of the projections of a layer's attention, and the width of all heads' keys and
        values; 0 for those of grouped-query attention.
    """

    source: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    ffn: int
    vocabulary: int
    context: int
    gated: bool = True
    biased: bool = False
    tied: bool = False
    experts: int = 0
    active: int = 0
    shared: int = 0
    expert_ffn: int = 0
    dense_layers: int = 0
    projections: int = 0
    scores: int = 0

    @property
    def attention(self) -> int:
        """Parameters of the attention of a layer, and of the norms of the layer."""
        h = self.hidden
        grouped = 2 * h * h + 2 * h * (h // self.heads) * self.kv_heads
        return (self.projections or grouped) + (2 + 6 * self.biased) * h

    def network(self, width: int) -> int:
        """Return the parameters of a feed-forward network of an inner width."""
        return (2 + self.gated) * self.hidden * width + self.biased * (self.hidden + width)

    @property
    def embedding(self) -> int:
        """Parameters of the input embedding, with learned positions."""
        return (self.vocabulary + self.biased * self.context) * self.hidden

    @property
    def head(self) -> int:
        """Parameters of the output layer beside those of the input embedding."""
        return (0 if self.tied else self.vocabulary * self.hidden) + self.hidden

    def has_experts(self, layer: int) -> bool:
        """Return whether a layer, from 0, has experts."""
        return self.experts > 0 and layer >= self.dense_layers

    def dense(self, layer: int) -> int:
        """Return the parameters of a layer that every token uses, the router included."""
        if not self.has_experts(layer):
            return self.attention + self.network(self.ffn)
        shared = self.shared * self.network(self.expert_ffn)
        return self.attention + shared + self.hidden * self.experts

    @property
    def expert(self) -> int:
        """Parameters of an expert."""
        return self.network(self.expert_ffn)

    def parameters(self, experts: int | None = None) -> int:
        """Return the number of parameters, of all experts or of so many in each layer."""
        count = self.experts if experts is None else experts
        layers = sum(
            self.dense(at) + self.has_experts(at) * count * self.expert for at in range(self.layers)
        )
        return layers + self.embedding + self.head

    def layer_flop(self, layer: int, sequence: int) -> float:
        """Return the operations of a layer for a token, forwards.

        Two for each parameter that the token uses; and for each earlier or later token of the
        sequence two for each value of the heads' keys, and of their values. Masked scores count, as
        in the publications of Megatron-LM and PaLM.
        """
        used = self.dense(layer) + self.has_experts(layer) * self.active * self.expert
        return 2.0 * used + 2.0 * sequence * (self.scores or 2 * self.hidden)

    @property
    def head_flop(self) -> float:
        """Operations of the output layer for a token, forwards."""
        return 2.0 * self.vocabulary * self.hidden

    def step_flop(self, sequence: int) -> float:
        """Return the operations for a token forwards and backwards."""
        layers = sum(self.layer_flop(layer, sequence) for layer in range(self.layers))
        return 3.0 * (layers + self.head_flop)


_LLAMA3 = "The Llama 3 Herd of Models (Llama team 2024), table 3"

MODELS = {
    "gpt3-175b": Transformer(
        "Language Models are Few-Shot Learners (Brown et al. 2020), table 2.1",
        96, 12288, 96, 96, 49152, 50257, 2048, gated=False, biased=True, tied=True,
    ),
    "llama3-8b": Transformer(_LLAMA3, 32, 4096, 32, 8, 14336, 128256, 8192),
    "llama3-70b": Transformer(_LLAMA3, 80, 8192, 64, 8, 28672, 128256, 8192),
    "llama3-405b": Transformer(_LLAMA3, 126, 16384, 128, 8, 53248, 128256, 8192),
    "mixtral-8x7b": Transformer(
        "Mixtral of Experts (Jiang et al. 2024), table 1",
        32, 4096, 32, 8, 14336, 32000, 32768, experts=8, active=2, expert_ffn=14336,
    ),
    "deepseek-v3": Transformer(
        "DeepSeek-V3 Technical Report (DeepSeek-AI 2024), section 4.2",
        61, 7168, 128, 128, 18432, 129280, 4096, experts=256, active=8, shared=1, expert_ffn=2048,
        dense_layers=3,
        # Latent attention: 128 heads with keys of 128 + 64 values, of which all heads share 64, and
        # 128 values; queries compressed to 1,536, keys and values to 512, each with a norm.
        projections=1536 * (7168 + 1 + 128 * 192) + 7168 * (512 + 64) + 512
        + 512 * 128 * (128 + 128) + 128 * 128 * 7168,
        scores=128 * (192 + 128),
    ),
}  # fmt: skip


def transformer(name: str) -> Transformer:
    """Return a published model by its name."""
    known = ", ".join(MODELS)
    need(name in MODELS, f"unknown model {name!r}{did_you_mean(name, MODELS)}; expected {known}")
    return MODELS[name]
