#!/bin/sh
# TaskProlog: give the tasks of a job what weft.mpi and weft.client read from the environment.
#
# It runs as the user of the job; Slurm sets the variables that it prints.

. "${0%/*}/common.sh"

is_plain "${SLURM_JOB_ID:-}" 0-9 || exit 0
file="$WEFT_JOB_TOKENS/job-$SLURM_JOB_ID"
[ -r "$file" ] || exit 0
echo "export WEFT_URL=$WEFT_URL"
echo "export WEFT_APPLICATION=job-$SLURM_JOB_ID"
echo "export WEFT_TOKEN=$(cat "$file")"
# Several tasks of a node share its place in the application.
is_plain "${SLURMD_NODENAME:-}" "$host_characters" && echo "export WEFT_HOST=$SLURMD_NODENAME"
# By default UCX spreads messages over all LIDs of a host, which lead over the paths of keys.
[ -n "${UCX_IB_LID_PATH_BITS:-}" ] || echo "export UCX_IB_LID_PATH_BITS=0"
[ -z "${WEFT_CA_FILE:-}" ] || echo "export WEFT_CA_FILE=$WEFT_CA_FILE"
exit 0
