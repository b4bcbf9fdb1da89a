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
OSU = """\
# OSU MPI-CUDA Allreduce Latency Test v7.4
# Datatype: MPI_FLOAT.
# Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations
4                       3.10              2.90              3.30        1000
1048576               104.30            104.26            104.33         100

# OSU MPI Multiple Bandwidth / Message Rate Test v5.8
# [ pairs: 2 ] [ window size: 32 ]
# Size                  MB/s        Messages/s
1                       2.36        2356892.44
4194304             26903.29           6414.24
"""
PERFTEST = """\
---------------------------------------------------------------------------------------
                    RDMA_Write BW Test
 Dual-port       : OFF\t\tDevice         : mlx5_0
 TX depth        : 128
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
Conflicting CPU frequency values detected: 2400.000000 != 1873.463000. CPU Frequency is not max.
 65536      5000             11030.78            11030.45\t\t     0.176487
---------------------------------------------------------------------------------------
                    RDMA_Read Latency Test
---------------------------------------------------------------------------------------
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    \
t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec]
 2       1000          1.76           6.12         1.79                1.80             0.06\
            1.88                    6.12
---------------------------------------------------------------------------------------
"""
CSV = """\
# two machines
collective,nodes,gpus_per_node,size_bytes,time_us,busbw_gb_s
all_reduce,10,2,33554432,1405.25,42.98
sendrecv,10,2,33554432,705.0,47.6
"""
