"""Mixture of experts: tokens are sent to the ranks of their experts and back."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import NotApplicable
from weft.core.units import Bytes, Nanoseconds
from weft.workload.apps.application_registry import (
    MAX_RANKS,
    all_ranks,
    alltoallv,
    application,
    at_least,
    check_messages,
    check_size,
    generator,
    group_size,
    need,
    numbered,
    popularity,
)
from weft.workload.builder import WorkloadBuilder
from weft.workload.workload import Workload

#: Largest default size of a group.
_GROUP = 64


@application("moe", source="GShard (Lepikhin et al. 2021); Switch Transformer (Fedus et al. 2022)")
def moe(
    num_ranks: int,
    *,
    tokens: int = 4096,
    token: Bytes = 8192,
    top: int = 2,
    experts: int | None = None,
    group: int | None = None,
    layers: int = 2,
    skew: float = 0.0,
    attention: Nanoseconds = 0.0,
    expert: Nanoseconds = 0.0,
    training: bool = False,
    algorithm: str | None = None,
    seed: int = 0,
) -> Workload:
    """Run layers of experts that are divided among the ranks of a group.

    In each layer a rank sends each of its tokens to the ranks of `top` experts (dispatch,
    MPI_Alltoallv), these compute, and the results are sent back (combine). A token for an expert of
    its own rank needs no message; a token for two experts of one rank counts twice in the message
    to that rank. The training option adds the backward pass: for each layer, the last one first,
    the gradients are dispatched and combined in the same way.

    Parameters
    ----------
    tokens
        Tokens per rank.
    token
        Bytes of a token; the default is 4,096 values of 2 bytes.
    top
        Experts per token.
    experts
        Number of experts per group, a multiple of the ranks per group; if left out, one per rank.
    group
        Number of consecutive ranks that share the experts, a divisor of `num_ranks`; if left out,
        the largest divisor up to 64, or all ranks if that divisor is 1.
    layers
        Number of layers with experts; each layer draws the experts of its tokens independently.
    skew
        Exponent s of Zipf's law: the n-th most popular expert of a group gets tokens with a
        probability proportional to n^-s; 0 means equal probabilities. Experts are drawn
        independently for all tokens.
    attention, expert
        Calculation time of a rank before each dispatch; calculation time of an expert per token.
    training
        Add the backward pass, with the same calculations.
    algorithm
        Algorithm of MPI_Alltoallv; if left out, the one that MPICH selects.
    seed
        Seed of all draws.
    """
    at_least(1, tokens=tokens, top=top, layers=layers, experts=experts)
    need(0 <= skew < float("inf"), f"skew must be 0 or more, not {skew}")
    check_size(tokens * top * max(token, 1))
    need((experts or 0) <= MAX_RANKS, f"experts must be at most {MAX_RANKS:,}, not {experts}")
    members = group_size(num_ranks, group, _GROUP, "group")
    count = members if experts is None else experts
    if count % members:
        raise NotApplicable(f"{count} experts cannot be shared equally by groups of {members}")
    need(top <= count, f"top {top} is more than the {count} experts")
    check_messages(num_ranks, layers * (4.0 if training else 2.0) * num_ranks * (members - 1))
    builder = WorkloadBuilder(num_ranks)
    ranks = all_ranks(builder)
    groups = ranks.reshape(-1, members)
    routed = [
        _route(generator(seed, layer), len(groups), members, count, tokens * top, skew)
        for layer in range(layers)
    ]

    def layer(name: str, sizes: NDArray[np.int64]) -> None:
        if attention:
            builder.phase(f"{name}, attention")
            builder.calc(ranks, attention)
        builder.phase(f"{name}, dispatch")
        alltoallv(builder, groups, sizes * token, algorithm=algorithm)
        if expert:
            builder.phase(f"{name}, experts")
            builder.calc(ranks, sizes.sum(axis=1).reshape(-1) * expert)
        builder.phase(f"{name}, combine")
        alltoallv(builder, groups, sizes.transpose(0, 2, 1) * token, algorithm=algorithm)

    for index, sizes in enumerate(routed):
        layer(numbered("layer", index, layers), sizes)
    if training:
        for index, sizes in reversed([*enumerate(routed)]):
            layer(f"{numbered('layer', index, layers)} backward", sizes)
    return builder.build()


def _route(
    random: np.random.Generator, groups: int, members: int, experts: int, choices: int, skew: float
) -> NDArray[np.int64]:
    """Return the number of tokens between members, int64 [groups, senders, receivers]."""
    chances = [
        popularity(experts, skew, random).reshape(members, -1).sum(axis=1) for _ in range(groups)
    ]
    return np.stack([random.multinomial(choices, chance, members) for chance in chances])
