#!/bin/sh
# EpilogSlurmctld: remove the application of a job, so that its hosts are free for the next one.
#
# The token of the job marks that prolog.sh has announced it. If the service is down, the token
# stays; then remove the application later with: SLURM_JOB_ID=… epilog.sh

. "${0%/*}/common.sh"

is_plain "${SLURM_JOB_ID:-}" 0-9 || exit 0
file="$WEFT_JOB_TOKENS/job-$SLURM_JOB_ID"
[ -e "$file" ] || exit 0
answer=$(call DELETE "/v1/applications/job-$SLURM_JOB_ID" --retry 2 --retry-connrefused 2>&1)
case $answer in
*204 | *404) rm -f "$file" ;;
*) printf 'weft: application job-%s is not removed: %s\n' "$SLURM_JOB_ID" "$answer" >&2 ;;
esac
exit 0
