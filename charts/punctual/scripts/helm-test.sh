# The script of `helm test`: creates a schedule for every minute, waits until it has run
# successfully, and deletes it. Needs curl and a POSIX shell. URL is the address of the API,
# KEY_FILE is a file with a key, and TARGET is the target of the schedule. Without KEY_FILE, the
# script only checks that the API answers.
set -eu

say() { echo "helm test: $*"; }

# Calls the API and prints the response. Exits with the response as the error if the call fails.
call() {
    method=$1 path=$2
    shift 2
    answer=$(curl -sS --max-time 10 -X "$method" -w '\n%{http_code}' -H "x-api-key: $key" \
        -H 'content-type: application/json' "$@" "$URL/v1/$path") || exit 1
    status=${answer##*
}
    case $status in
    2*) ;;
    *) say "$method /v1/$path was answered with $answer" >&2; exit 1 ;;
    esac
    printf '%s' "$answer"
}

# Prints the first field of this name in the JSON on standard input.
field() { sed -n "s/^[^}]*\"$1\":\"\\([^\"]*\\)\".*/\\1/p" | head -n 1; }

curl -sS -f --max-time 10 -o /dev/null "$URL/openapi.json"
say "$URL answers"
if [ -z "${KEY_FILE:-}" ]; then
    say "no schedule was made: name a Secret with a key in test.keySecret.name"
    exit 0
fi

key=$(cat "$KEY_FILE")
made=$(call POST schedules -d "{\"name\": \"helm test\", \"cronExpression\": \"* * * * *\",
    \"timezone\": \"UTC\", \"endpoint\": \"$TARGET\", \"httpMethod\": \"GET\", \"maxRetries\": 1}")
schedule=$(printf '%s' "$made" | field id)
[ -n "$schedule" ] || { say "no id in $made"; exit 1; }
trap 'call DELETE "schedules/$schedule" >/dev/null' EXIT
say "made the schedule $schedule, which calls $TARGET at each full minute"

asked=0
while [ "$asked" -lt 40 ]; do
    jobs=$(call GET "jobs?scheduleId=$schedule&limit=1")
    case $(printf '%s' "$jobs" | field status) in
    SUCCESS) say "it has run"; exit 0 ;;
    FAILED) say "it has run and failed: $jobs"; exit 1 ;;
    esac
    asked=$((asked + 1))
    sleep 3 # two concurrent tests stay within the default rate limit of a key
done
say "it has not run within two minutes: $jobs"
exit 1
