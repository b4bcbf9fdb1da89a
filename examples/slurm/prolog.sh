#!/bin/sh
# PrologSlurmctld: announce a job to weft serve as the application job-ID.
#
#   sbatch --comment='weft:cartesian:keys=true' …
#
# The comment is what a user can give to this program: Slurm passes it in SLURM_JOB_COMMENT, and not
# the environment of the job. Other words in the comment are left alone; jobs without a word
# 'weft:WORKLOAD' are not announced. The order of ranks is that of the hosts in Slurm's list.
# Whatever fails, the job starts: if this program failed, Slurm would requeue the job.

. "${0%/*}/common.sh"

asked=
for word in ${SLURM_JOB_COMMENT:-}; do
    case $word in
    weft:*) asked=$word ;;
    esac
done
[ -n "$asked" ] || exit 0
workload=${asked#weft:}
is_plain "${SLURM_JOB_ID:-}" 0-9 || give_up "SLURM_JOB_ID is not a number"
is_plain "$workload" "$workload_characters" || give_up "the comment has no word 'weft:WORKLOAD'"
hosts=$(hosts_of "${SLURM_JOB_NODELIST:-}") || give_up "scontrol cannot list the hosts"
# shellcheck disable=SC2086
hosts=$(json_list $hosts) || give_up "a host has an unexpected name"

new_folder || give_up "there is no room for a temporary file"
application="/v1/applications/job-$SLURM_JOB_ID"
printf '{"name":"job-%s","hosts":%s,"workload":"%s"}' \
    "$SLURM_JOB_ID" "$hosts" "$workload" >"$work/body"
# A job that was requeued may have left its first announcement.
call DELETE "$application" >"$work/answer" 2>"$work/problem" ||
    give_up "$(cat "$work/problem")"
answer=$(call POST /v1/applications --header 'Content-Type: application/json' \
    --data-binary "@$work/body" 2>"$work/problem") || give_up "$(cat "$work/problem")"
case $answer in
*201) ;;
*) give_up "$(message_of "$answer")" ;;
esac

token=$(printf '%s\n' "$answer" | sed -n 's/.*"token":"\([A-Za-z0-9_-]*\)".*/\1/p')
file="$WEFT_JOB_TOKENS/job-$SLURM_JOB_ID"

# Write the token to a file that only the user of the job may read; SlurmUser may be root or not.
store_token() {
    is_plain "${SLURM_JOB_UID:-}" 0-9 || return
    rm -f "$file" && printf '%s\n' "$token" >"$file" || return
    if [ "$(id -u)" -eq 0 ]; then
        chown "$SLURM_JOB_UID" "$file"
    elif [ "$(id -u)" -ne "$SLURM_JOB_UID" ]; then
        setfacl -m "u:$SLURM_JOB_UID:r" "$file"
    fi
}
if ! store_token 2>"$work/problem"; then
    rm -f "$file"
    call DELETE "$application" >/dev/null 2>&1
    give_up "its token cannot be stored in $WEFT_JOB_TOKENS: $(cat "$work/problem")"
fi
exit 0
