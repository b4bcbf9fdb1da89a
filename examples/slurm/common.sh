# Settings and functions of the Slurm examples; to be sourced.
#
# The file named by WEFT_SLURM_CONF, by default /etc/weft/slurm.env, may set:
#   WEFT_URL         address of weft serve
#   WEFT_TOKEN_FILE  file with the administrator's token, which only SlurmUser may read
#   WEFT_CA_FILE     certificate of the authority that signed the service's
#   WEFT_JOB_TOKENS  directory for the tokens of jobs, shared by the controller and the nodes
#   PATH             with curl, scontrol and setfacl; Slurm gives prologs none

LC_ALL=C
PATH=${PATH:-/usr/local/bin:/usr/bin:/bin}
export LC_ALL PATH
set -f # names from outside are never expanded

WEFT_SLURM_CONF=${WEFT_SLURM_CONF:-/etc/weft/slurm.env}
# shellcheck disable=SC1090
[ ! -r "$WEFT_SLURM_CONF" ] || . "$WEFT_SLURM_CONF"
WEFT_URL=${WEFT_URL:-http://127.0.0.1:8973}
WEFT_JOB_TOKENS=${WEFT_JOB_TOKENS:-/var/spool/weft}

# End without keys: the job must run all the same, on the base routes.
give_up() {
    printf 'weft: job %s runs without routing keys: %s\n' "${SLURM_JOB_ID:-?}" "$1" >&2
    exit 0
}

# is_plain TEXT CHARACTERS: whether a text has only these characters, and 1 to 256 of them.
is_plain() {
    # shellcheck disable=SC2254
    case $1 in
    '' | *[!$2]*) return 1 ;;
    esac
    [ ${#1} -le 256 ]
}
workload_characters='A-Za-z0-9_.,:;=+@()-'
host_characters='A-Za-z0-9_.-'

# json_list NAME…: print host names as a JSON list.
json_list() {
    separator=
    printf '['
    for name; do
        is_plain "$name" "$host_characters" || return 1
        printf '%s"%s"' "$separator" "$name"
        separator=,
    done
    printf ']'
}

# hosts_of HOSTLIST: print the hosts of a Slurm host list, one per line. This asks no daemon.
hosts_of() {
    scontrol show hostnames "$1"
}

# call METHOD PATH [OPTION…]: send a request, print the answer, and below it the status. Options are
# those of curl; the token is on its standard input, where other users do not see it.
call() {
    method=$1 path=$2
    shift 2
    if [ -n "${WEFT_TOKEN_FILE:-}" ] && [ ! -r "$WEFT_TOKEN_FILE" ]; then
        echo "$WEFT_TOKEN_FILE cannot be read" >&2
        return 1
    fi
    {
        if [ -n "${WEFT_TOKEN_FILE:-}" ]; then
            printf 'header = "Authorization: Bearer %s"\n' "$(cat "$WEFT_TOKEN_FILE")"
        fi
        if [ -n "${WEFT_CA_FILE:-}" ]; then
            printf 'cacert = "%s"\n' "$WEFT_CA_FILE"
        fi
    } | curl --silent --show-error --noproxy '*' --connect-timeout 3 --max-time 10 \
        --config - --request "$method" --write-out '\n%{http_code}\n' "$@" "$WEFT_URL$path"
}

# new_folder: make a folder `work` that is removed at the end.
new_folder() {
    umask 077
    work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
}

# message_of ANSWER: print the sentence of an error.
message_of() {
    printf '%s\n' "$1" | sed -n 's/.*"message":"\(.*\)"}}.*/\1/p'
}
