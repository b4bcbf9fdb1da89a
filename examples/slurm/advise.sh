#!/bin/sh
# Print which hosts of a list a job should use, in order of its ranks, one per line.
#
#   advise.sh NUMBER WORKLOAD HOSTLIST
#   advise.sh 4 cartesian:keys=true 'h[0-7]' >order; SLURM_HOSTFILE=order srun -m arbitrary …
#
# The administrator's token is needed. Standard error says which placement it is and its contention.

. "${0%/*}/common.sh"

fail() {
    printf 'weft: error: %s\n' "$1" >&2
    exit 2
}

[ $# -eq 3 ] || fail "expected a number of hosts, a workload and a host list"
is_plain "$1" 0-9 || fail "$1 is not a number of hosts"
is_plain "$2" "$workload_characters" || fail "$2 is not a workload"
hosts=$(hosts_of "$3") || fail "scontrol cannot list the hosts of $3"
# shellcheck disable=SC2086
hosts=$(json_list $hosts) || fail "a host has an unexpected name"
new_folder || fail "there is no room for a temporary file"
printf '{"num_hosts":%s,"workload":"%s","hosts":%s}' "$1" "$2" "$hosts" >"$work/body"
answer=$(call POST /v1/advice --header 'Content-Type: application/json' \
    --data-binary "@$work/body") || fail "the service cannot be reached at $WEFT_URL"
case $answer in
*200) ;;
*) fail "$(message_of "$answer")" ;;
esac
# The best placement is the first.
printf '%s\n' "$answer" | awk -F '"placement":' 'NR == 1 {
    split($2, part, /"hosts":\[|\],"contention":|,"base_contention":|,"leaf_switches":/)
    gsub(/[",]/, "", part[1])
    print "placement " part[1] ": at most " part[3] + 0 " flows on a link, " part[4] + 0 \
        " with the base routes" >"/dev/stderr"
    gsub(/"/, "", part[2])
    gsub(/,/, "\n", part[2])
    print part[2]
}'
