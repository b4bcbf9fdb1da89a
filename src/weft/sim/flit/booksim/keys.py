"""Keys of BookSim's configuration files with their defaults, and those that change no result.

From `src/booksim_config.cpp` of revision 923f1a9 of github.com/booksim/booksim2.
"""

from __future__ import annotations

from weft.sim.flit.booksim.grammar import Value

#: Default of each key; its type is that of the key.
DEFAULTS: dict[str, Value] = {
    # topology
    "topology": "torus", "k": 8, "n": 2, "c": 1, "routing_function": "none", "use_noc_latency": 1,
    "x": 8, "y": 8, "xr": 1, "yr": 1, "link_failures": 0, "fail_seed": 0, "in_ports": 5,
    "out_ports": 5, "channel_file": "", "network_file": "", "subnets": 1,
    "read_request_subnet": 0, "read_reply_subnet": 0, "write_request_subnet": 0,
    "write_reply_subnet": 0,
    # routers
    "router": "iq", "num_vcs": 16, "vc_buf_size": 8, "buf_size": -1, "buffer_policy": "private",
    "private_bufs": -1, "private_buf_size": 1, "private_buf_start_vc": -1,
    "private_buf_end_vc": -1, "max_held_slots": -1, "feedback_aging_scale": 1,
    "feedback_offset": 0, "wait_for_tail_credit": 0, "vc_busy_when_full": 0,
    "vc_prioritize_empty": 0, "vc_priority_donation": 0, "vc_shuffle_requests": 0,
    "hold_switch_for_packet": 0, "speculative": 0, "spec_check_elig": 1, "spec_check_cred": 1,
    "spec_mask_by_reqs": 0, "spec_sw_allocator": "prio", "noq": 0, "input_speedup": 1,
    "output_speedup": 1, "internal_speedup": 1.0, "output_buffer_size": -1, "routing_delay": 1,
    "vc_alloc_delay": 1, "sw_alloc_delay": 1, "st_prepare_delay": 0, "st_final_delay": 1,
    "credit_delay": 0, "output_delay": 0, "vct": 0, "vc_allocator": "islip",
    "sw_allocator": "islip", "arb_type": "round_robin", "alloc_iters": 1,
    # traffic
    "classes": 1, "class_priority": 0, "traffic": "uniform", "injection_rate": 0.1,
    "injection_rate_uses_flits": 0, "packet_size": 1, "packet_size_rate": 1,
    "injection_process": "bernoulli", "burst_alpha": 0.5, "burst_beta": 0.5, "burst_r1": -1.0,
    "perm_seed": 0, "parm_seed": "", "priority": "none", "use_read_write": 0,
    "write_fraction": 0.5, "read_request_size": 1, "read_reply_size": 1, "write_request_size": 1,
    "write_reply_size": 1, "read_request_begin_vc": 0, "read_request_end_vc": 5,
    "write_request_begin_vc": 2, "write_request_end_vc": 7, "read_reply_begin_vc": 8,
    "read_reply_end_vc": 13, "write_reply_begin_vc": 10, "write_reply_end_vc": 15,
    "batch_size": 1000, "batch_count": 1, "max_outstanding_requests": 0,
    # simulation
    "sim_type": "latency", "warmup_periods": 3, "sample_period": 1000, "max_samples": 10,
    "warmup_thres": 0.05, "acc_warmup_thres": 0.05, "stopping_thres": 0.05,
    "acc_stopping_thres": 0.05, "latency_thres": 500.0, "measure_stats": 1, "pair_stats": 0,
    "include_queuing": 1, "sim_count": 1, "seed": 0,
    # output and power
    "deadlock_warn_timeout": 256, "print_activity": 0, "print_csv_results": 0, "viewer_trace": 0,
    "watch_file": "", "watch_flits": "", "watch_packets": "", "watch_transactions": "",
    "watch_out": "", "stats_out": "", "sent_packets_out": "", "injected_flits_out": "",
    "received_flits_out": "", "stored_flits_out": "", "sent_flits_out": "",
    "ejected_flits_out": "", "outstanding_credits_out": "", "active_packets_out": "",
    "used_credits_out": "", "free_credits_out": "", "max_credits_out": "", "sim_power": 0,
    "power_output_file": "pwr_tmp", "tech_file": "", "channel_width": 128, "channel_sweep": 0,
}  # fmt: skip

#: Keys of numbers that may also be a list, one value for each class of traffic.
LISTS = frozenset((
    "class_priority", "injection_rate", "packet_size", "packet_size_rate", "use_read_write",
    "write_fraction", "read_request_size", "read_reply_size", "write_request_size",
    "write_reply_size", "measure_stats", "latency_thres", "warmup_thres", "acc_warmup_thres",
    "stopping_thres", "acc_stopping_thres", "private_buf_size", "private_buf_start_vc",
    "private_buf_end_vc",
))  # fmt: skip
#: Seeds may be the word `time`.
SEEDS = frozenset(("seed", "fail_seed"))

#: Keys without influence on the results: output, power, other seeds, the priority of one class,
#: and what input-queued routers do not read.
SILENT = frozenset((
    "deadlock_warn_timeout", "print_activity", "print_csv_results", "viewer_trace", "watch_file",
    "watch_flits", "watch_packets", "watch_transactions", "watch_out", "stats_out",
    "sent_packets_out", "injected_flits_out", "received_flits_out", "stored_flits_out",
    "sent_flits_out", "ejected_flits_out", "outstanding_credits_out", "active_packets_out",
    "used_credits_out", "free_credits_out", "max_credits_out", "sim_power", "power_output_file",
    "tech_file", "channel_width", "channel_sweep", "pair_stats", "parm_seed", "fail_seed",
    "class_priority", "in_ports", "out_ports", "output_delay", "vct", "arb_type", "alloc_iters",
))  # fmt: skip

#: Keys of older revisions, and what to write instead.
OLD: dict[str, str] = {
    "const_flits_per_packet": "packet_size",
    "vc_alloc_arb_type": "vc_allocator with its arbiter, as in separable_input_first(matrix)",
    "sw_alloc_arb_type": "sw_allocator with its arbiter, as in separable_input_first(matrix)",
    "vc_alloc_iters": "vc_allocator with its iterations, as in islip(2)",
    "sw_alloc_iters": "sw_allocator with its iterations, as in islip(2)",
    "shared_buf_size": "buffer_policy = shared with buf_size",
    "spec_use_prio": "spec_sw_allocator",
    "physical_subnetworks": "subnets",
    "hotspot_nodes": "traffic = hotspot({node})",
    "hotspot_rates": "traffic = hotspot({{node,node},{rate,rate}})",
    "background_excludes": "traffic = background({{node,node}})",
}

#: Keys that have one value here, that value, and why.
FIXED: dict[str, tuple[Value, str]] = {
    "link_failures": (0, "weft chooses other links; give `weft.fabric(…).without(…)`"),
    "channel_file": ("", "lengths of channels come from use_noc_latency"),
    "subnets": (1, "there is one network"),
    "read_request_subnet": (0, "there is one network"),
    "read_reply_subnet": (0, "there is one network"),
    "write_request_subnet": (0, "there is one network"),
    "write_reply_subnet": (0, "there is one network"),
    "router": ("iq", "routers are input-queued"),
    "vc_busy_when_full": (0, "packets may take a virtual channel without credits"),
    "vc_prioritize_empty": (0, "virtual channels are taken in rotating order"),
    "vc_shuffle_requests": (0, "ports take turns in the allocation of virtual channels"),
    "noq": (0, "virtual channels do not depend on the next output"),
    "classes": (1, "there is one class of packets"),
    "injection_process": ("bernoulli", "endpoints generate packets by a Bernoulli process"),
    "measure_stats": (1, "all packets are measured"),
    "include_queuing": (1, "latency includes the source queue; see also the network latency"),
    "sim_count": (1, "a run is one simulation; give other seeds for more"),
}

_SHARED = ("shared", "limited", "dynamic", "shifting", "feedback", "simplefeedback")
_DIGITS = ("tornado", "neighbor", "badperm_yarc")

#: Keys that BookSim reads only if another key has one of some values.
READ_IF: tuple[tuple[str, tuple[Value, ...], tuple[str, ...]], ...] = (
    ("topology", ("flatfly", "cmesh"), ("c", "x", "y", "xr", "yr")),
    ("topology", ("torus", "mesh", "flatfly", "cmesh"), ("use_noc_latency",)),
    ("topology", ("anynet",), ("network_file",)),
    ("traffic", _DIGITS, ("xr",)),
    ("traffic", ("randperm",), ("perm_seed",)),
    ("buffer_policy", _SHARED,
     ("private_bufs", "private_buf_size", "private_buf_start_vc", "private_buf_end_vc")),
    ("buffer_policy", ("limited",), ("max_held_slots",)),
    ("buffer_policy", ("feedback", "simplefeedback"), ("feedback_aging_scale", "feedback_offset")),
    ("speculative", (1,),
     ("spec_check_elig", "spec_check_cred", "spec_mask_by_reqs", "spec_sw_allocator")),
    ("injection_process", ("on_off",), ("burst_alpha", "burst_beta", "burst_r1")),
    ("priority",
     ("class", "age", "network_age", "local_age", "queue_length", "hop_count", "sequence"),
     ("vc_priority_donation",)),
    ("use_read_write", (0,), ("packet_size", "packet_size_rate")),
    ("use_read_write", (1,), (
        "write_fraction", "read_request_size", "read_reply_size", "write_request_size",
        "write_reply_size", "read_request_begin_vc", "read_request_end_vc",
        "write_request_begin_vc", "write_request_end_vc", "read_reply_begin_vc",
        "read_reply_end_vc", "write_reply_begin_vc", "write_reply_end_vc",
        "read_request_subnet", "read_reply_subnet", "write_request_subnet",
        "write_reply_subnet",
    )),
    ("sim_type", ("batch",), ("batch_size", "batch_count", "max_outstanding_requests")),
)  # fmt: skip

#: Keys of BookSim's rules of when to stop a run, and their common note.
STOP_RULES = (
    "warmup_thres", "acc_warmup_thres", "stopping_thres", "acc_stopping_thres", "latency_thres",
)  # fmt: skip
