"""Small logs as benchmarks print them, written by hand from their formats."""

NCCL = """\
+ mpirun -np 4 ./build/all_reduce_perf -b 32M -e 64M -f 2 -g 1
# nThread 1 nGpus 1 minBytes 33554432 maxBytes 67108864 step: 2(factor) warmup iters: 5 iters: 20 \
agg iters: 1 validation: 1 graph: 0
#
# Using devices
#  Rank  0 Group  0 Pid   1001 on   gpu-01 device  0 [0000:1b:00] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid   1002 on   gpu-01 device  1 [0000:43:00] NVIDIA H100 80GB HBM3
#  Rank  2 Group  0 Pid   2001 on   gpu-02 device  0 [0000:1b:00] NVIDIA H100 80GB HBM3
#  Rank  3 Group  0 Pid   2002 on   gpu-02 device  1 [0000:43:00] NVIDIA H100 80GB HBM3
gpu-01:1001:1001 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>
NCCL version 2.29.2+cuda13.0
#
#                                                              out-of-place                       \
in-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   \
algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  \
(GB/s)  (GB/s)
    33554432       8388608     float     sum      -1   712.50   47.09   70.64       0   710.10   \
47.25   70.88       0
    67108864      16777216     float     sum      -1  1398.20   48.00   72.00       0  1399.00   \
47.97   71.95       0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 71.3675
#
"""
