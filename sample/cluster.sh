#!/usr/bin/env bash
# Shows what singleworker does, with real processes and a real ZooKeeper: three
# instances share nine jobs; one is killed, one is stopped, a job is cancelled. In the
# end it checks, run by run, that no tick was run twice and that none was lost.
#
#   sample/cluster.sh                          starts a ZooKeeper of its own
#   ZK=host:port[/chroot] sample/cluster.sh    uses that one, and removes its nodes
#   ZK=dev sample/cluster.sh                   uses swctl dev: needs no Java
#
# The last line is PASS and the figures, or FAIL and why. No process and no file is
# left behind; KEEP=1 keeps the files and says where they are.
set -euo pipefail
shopt -s inherit_errexit

readonly session_ms=4000
# How late the server may notice that a session is over: its tickTime.
tick_ms=500
[[ -z ${ZK:-} || $ZK == dev ]] || tick_ms=2000 # ZooKeeper's default
readonly tick_ms

# NAME|PERIOD|HANDLER|SCHEDULE|TIME ZONE, the period of the schedule in ms
readonly jobs='
backup|1000|print-number|*/1 * * * * ? 2026-2099|UTC
berlin|1000|print-time|*/1 * * * * ?|Europe/Berlin
counter|1000|print-number|@every 1s|UTC
invoices|1000|print-number|*/1 * * * * ?|UTC
mails|1000|print-number|* * * * * ?|UTC
metrics|1000|print-time|0-59 * * * * ?|UTC
report|1000|print-time|@every 1s|UTC
shanghai|1000|print-time|0/1 * * * * ?|Asia/Shanghai
thumbs|1000|print-number|@every 1s|UTC
'
readonly canceled=metrics
readonly sids="app-1 app-2 app-3"

dir=""             # all files are in here
zk=""              # the server in use
declare -A pids=() # what runs: app-1, app-2, app-3, zookeeper, build
remote=""          # set when there is something to remove from a server not our own
verdict=""         # the last line

bold="" red="" green="" plain=""
if [[ -t 1 && -z ${NO_COLOR:-} ]]; then
	bold=$'\e[1m' red=$'\e[31m' green=$'\e[32m' plain=$'\e[0m'
fi

main() {
	# First of all: without a trap, the shell may overlook a signal.
	trap cleanup EXIT
	trap 'exit 129' HUP
	trap 'exit 130' INT
	trap 'exit 143' TERM

	cd "$(dirname "${BASH_SOURCE[0]}")/.."
	begun=$(now)
	dir=$(mktemp -d "${TMPDIR:-/tmp}/singleworker-demo.XXXXXX")

	build
	start_zookeeper
	start_instances
	submit_jobs
	kill_busiest
	restart_killed
	stop_another
	cancel_one
	stop_all
	judge
}

# ---- what happens -------------------------------------------------------------

build() {
	say "building swctl, sample/app and sample/check"
	# In the background, because only wait can be interrupted; and in a process group
	# of its own, so that the compilers can be killed with it.
	GOTMPDIR=$dir setsid go build -o "$dir/bin/" ./cmd/swctl ./sample/app ./sample/check &
	pids[build]=$!
	wait "${pids[build]}" || fail "go build did not succeed"
	unset "pids[build]"
}

start_zookeeper() {
	local private=""
	export SWCTL_SERVER_TYPE=demo
	if [[ ${ZK:-} == dev ]]; then
		zk=127.0.0.1:$(free_port) private=", in memory (swctl dev)"
		"$dir/bin/swctl" dev --port "${zk#*:}" >"$dir/zookeeper.log" 2>&1 &
		pids[zookeeper]=$!
	elif [[ -n ${ZK:-} ]]; then
		zk=$ZK SWCTL_SERVER_TYPE=demo-$$-$RANDOM
	else
		zk=127.0.0.1:$(free_port) private=", private and new"
		integration/zookeeper.sh run "$dir/zookeeper" "${zk#*:}" >"$dir/zookeeper.log" 2>&1 &
		pids[zookeeper]=$!
	fi
	export SWCTL_ZK=$zk SWCTL_OUTPUT=table
	await 30 "ZooKeeper at $zk" swctl list --timeout 1s
	[[ ${ZK:-} == dev ]] || remote=${ZK:-}
	say "ZooKeeper at $zk$private; server type $SWCTL_SERVER_TYPE"
}

start_instances() {
	event config "$session_ms" "$tick_ms"
	local sid
	for sid in $sids; do
		event instance "$sid"
		start_instance "$sid"
	done
	await 15 "three instances" instances_are 3
	say "started three instances, with a session timeout of $session_ms ms:"
	swctl instances | indent
}

submit_jobs() {
	local name period handler schedule zone
	while IFS='|' read -r name period handler schedule zone; do
		[[ -n $name ]] || continue
		swctl submit "$name" "$schedule" --tz "$zone" --handler "$handler" >/dev/null
		event job "$name" "$period"
	done <<<"$jobs"
	even_out "$sids"
	event settled
	more_runs
	say "submitted nine jobs; each has one owner, shares are $shares:"
	swctl list | indent
}

kill_busiest() {
	snapshot before-kill
	read -r victim owned < <(check busiest "$dir/before-kill.json")
	say "${red}kill -9${plain} $victim, the owner of $owned jobs"
	event kill "$victim"
	end "$victim" KILL
	await 20 "a takeover" moved kill
	say "its jobs run elsewhere; counted from the kill, with the session timeout of $session_ms ms:"
	indent <"$dir/answer"
	even_out "$(others "$victim")"
}

restart_killed() {
	event join "$victim"
	start_instance "$victim"
	even_out "$sids"
	say "started $victim again: jobs have moved to it, shares are $shares"
	more_runs
}

stop_another() {
	local sid
	sid=$(others "$victim") sid=${sid%% *}
	snapshot before-stop
	say "kill -TERM $sid: a clean stop hands its jobs over"
	event stop "$sid"
	end "$sid" TERM
	even_out "$(others "$sid")"
	await 20 "a hand-over" moved stop
	say "its jobs run elsewhere; counted from the signal:"
	indent <"$dir/answer"
	running=$(others "$sid")
}

cancel_one() {
	say "swctl cancel $canceled"
	event cancel "$canceled"
	swctl cancel --yes "$canceled" >"$dir/answer"
	event canceled "$canceled"
	indent <"$dir/answer"
	even_out "$running"
	more_runs
}

stop_all() {
	event quit
	end_instances
	say "stopped all; checking the ledger: $(wc -l <"$dir/ledger") runs"
}

judge() {
	verdict=$(check verdict "$dir") || exit 1
}

# ---- what a reader sees -------------------------------------------------------

now() { # in Unix milliseconds
	local us=${EPOCHREALTIME/[.,]/}
	echo $((us / 1000))
}

say() {
	local tenths=$((($(now) - begun) / 100))
	printf '%s%3d.%d s%s  %s\n' "$bold" $((tenths / 10)) $((tenths % 10)) "$plain" "$*"
}

indent() { sed 's/^/         /'; }

# fail REASON ends the demonstration.
fail() {
	local log
	for log in "$dir"/*.log; do
		[[ ! -s $log ]] || { echo "end of ${log##*/}:" && tail -n 15 "$log" | indent; }
	done
	verdict="FAIL  $*"
	exit 1
}

# ---- what is written down -----------------------------------------------------

event() { echo "$(now) $*" >>"$dir/events"; }

snapshot() { swctl list -o json >"$dir/$1.json"; }

check() { "$dir/bin/check" "$@"; }

swctl() { "$dir/bin/swctl" "$@"; }

# ---- what is waited for -------------------------------------------------------

# await SECONDS WHAT COMMAND... waits until the command succeeds. What it printed
# then is in $dir/answer.
await() {
	local deadline=$((SECONDS + $1)) what=$2 name
	shift 2
	until "$@" >"$dir/answer" 2>&1; do
		((SECONDS < deadline)) || fail "waited in vain for $what: $(tail -n 2 "$dir/answer" | tr "\n" " ")"
		for name in "${!pids[@]}"; do
			kill -0 "${pids[$name]}" 2>/dev/null || fail "$name has ended by itself"
		done
		sleep 0.1
	done
}

instances_are() { (($(swctl instances -o json | grep -c '"instance_id"') == $1)); }

moved() { snapshot "after-$1" && check moved "$dir" "$1"; }

# shellcheck disable=SC2086 # ids are words
are_even() { snapshot list && check shares "$dir/list.json" $1; }

# even_out SIDS waits until these instances have fair shares, and sets shares.
even_out() {
	await 15 "fair shares" are_even "$1"
	shares=$(<"$dir/answer")
	event shares "$shares"
}

# others SID prints the other instances.
others() { xargs -n 1 <<<"$sids" | grep -vx "$1" | xargs; }

# more_runs waits for the runs of about three seconds.
more_runs() { await 15 "runs" ledger_has $(($(wc -l <"$dir/ledger") + 24)); }

ledger_has() { (($(wc -l <"$dir/ledger") >= $1)); }

# ---- processes ----------------------------------------------------------------

# start_instance SID adds an instance to the group.
start_instance() {
	"$dir/bin/app" --zk "$zk" --server-type "$SWCTL_SERVER_TYPE" --id "$1" --ledger "$dir/ledger" \
		--session-timeout "${session_ms}ms" --work 50ms >>"$dir/$1.out" 2>>"$dir/$1.log" &
	pids[$1]=$!
}

# end NAME SIGNAL ends a process, and returns when it has ended.
end() {
	local pid=${pids[$1]:-} tries=100
	[[ -n $pid ]] || return 0
	unset "pids[$1]"
	{ # the shell would report on a process that was killed
		kill -"$2" "$pid" || true
		while kill -0 "$pid" && ((tries-- > 0)); do sleep 0.05; done
		kill -KILL "$pid" || true
		wait "$pid" || true
	} 2>/dev/null
}

# end_instances ends all instances side by side.
end_instances() {
	local name
	for name in $sids; do
		[[ -z ${pids[$name]:-} ]] || kill -TERM "${pids[$name]}" 2>/dev/null || true
	done
	for name in $sids; do
		end "$name" CONT # the signal was sent before
	done
}

# free_port prints a loopback port that nothing listens on.
free_port() {
	local port
	while port=$((RANDOM % 12000 + 20000)) && (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do :; done
	echo "$port"
}

# remove_nodes removes what this demonstration made on a server that is not its own.
remove_nodes() {
	local cli=${ZOOKEEPER_HOME:-/usr/share/zookeeper}/bin/zkCli.sh
	"$cli" -server "$ZK" deleteall "/$SWCTL_SERVER_TYPE" >/dev/null 2>&1 ||
		echo "not removed from $ZK: /$SWCTL_SERVER_TYPE and all below it"
}

cleanup() {
	local status=$? pid
	trap '' HUP INT TERM # once is enough
	((status <= 128)) || echo "stopping everything"
	exec 2>/dev/null # the shell reports on processes that are killed
	[[ -z ${pids[build]:-} ]] || kill -KILL -- "-${pids[build]}" || true
	end_instances
	[[ -z $remote ]] || remove_nodes
	# The server, and what a signal kept from being noted down.
	for pid in $(jobs -p); do
		kill -KILL "$pid" || true
	done
	wait
	if [[ -n ${KEEP:-} ]]; then
		echo "kept $dir"
	elif [[ -n $dir ]]; then
		rm -rf "$dir" || { sleep 0.2 && rm -rf "$dir"; } # a compiler was not dead yet
	fi
	conclude "$status"
	exit "$status"
}

# conclude STATUS prints the last line, unless a signal ended the demonstration.
conclude() {
	local color=$red
	(($1 <= 128)) || return 0
	[[ $verdict != PASS* ]] || color=$green
	[[ -n $verdict ]] || verdict="FAIL  a command failed, see above"
	printf '%s%s%s%s\n' "$bold$color" "${verdict:0:4}" "$plain" "${verdict:4}"
}

main
